"""Feature columns of `tf.feature_column`'s kind whose tables are spread over the ranks.

    key_column       categorical columns whose ids are keys of a table that grows
    columns          dense columns with a table of ours
    tables           the table of a column, under TensorFlow's name for it
    lookups          ids and weights as TensorFlow's columns take them, and what comes out of the tables
    present_values   dense features without what is missing, by one op
    groups           columns that are looked up together
    linear           linear models over keys
    cols_to_vars     which variables TensorFlow's functions say that a column has
"""
from typing import TYPE_CHECKING

from sok1x import lazy

if TYPE_CHECKING:
    from sok1x.feature_column.columns import embedding_column, shared_embedding_columns
    from sok1x.feature_column.groups import group_embedding_column_scope
    from sok1x.feature_column.key_column import categorical_column_with_embedding

__all__ = ["categorical_column_with_embedding", "embedding_column", "group_embedding_column_scope",
           "shared_embedding_columns"]
# TensorFlow is loaded when one of them is first used.
__getattr__, __dir__ = lazy.exports(globals(), {
    "categorical_column_with_embedding": "key_column", "embedding_column": "columns",
    "group_embedding_column_scope": "groups", "shared_embedding_columns": "columns"})
