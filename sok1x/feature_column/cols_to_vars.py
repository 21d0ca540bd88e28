"""What `cols_to_vars` of TensorFlow's input layers and linear models says of columns with tables: their rows alone.

TensorFlow gives all variables in the column's scope, and what lies beside a table's rows is there, too.
"""
from typing import Any, Dict, List

from sok1x.core.frameworks import keras_attributes, wrapping
from sok1x.graph_ops.bridge.tensorflow_versions import feature_column as v1


def watch() -> None:
    """From now on TensorFlow's functions give the rows alone.

    Example:
        >>> from sok1x.feature_column import cols_to_vars
        >>> cols_to_vars.watch()
    """
    wrapping.wrap(v1, "_internal_input_layer", _input_layer)
    wrapping.wrap(v1._LinearModel, "cols_to_vars", _of_linear_model)


def _input_layer(stock: Any) -> Any:
    def internal_input_layer(*args: Any, cols_to_vars: Any = None, **options: Any) -> Any:
        if cols_to_vars is None:
            return stock(*args, **options)
        made: Dict[Any, List[Any]] = {}
        layer = stock(*args, cols_to_vars=made, **options)
        cols_to_vars.update(_rows(made))
        return layer
    return internal_input_layer


def _of_linear_model(stock: Any) -> Any:
    def of_model(self: Any) -> Any:
        return _rows(stock(self))
    return of_model


def _rows(found: Dict[Any, List[Any]]) -> Dict[Any, List[Any]]:
    """The same without what lies beside tables' rows."""
    beside = {id(one) for variables in found.values() for table in variables if hasattr(table, "table_variables")
              for one in keras_attributes.beside(table)}
    return {column: [one for one in variables if id(one) not in beside] for column, variables in found.items()}
