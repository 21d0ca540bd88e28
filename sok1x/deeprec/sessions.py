"""`MonitoredTrainingSession` on several ranks: all of them chief, with one folder and equal dense variables."""
import inspect
from typing import Any, Dict, List

import tensorflow.compat.v1 as tf

from sok1x import launch
from sok1x.checkpoint.session.talk import talk
from sok1x.core import alike
from sok1x.core.broadcast import BroadcastGlobalVariablesHook
from sok1x.core.frameworks import summaries
from sok1x.core.graph_keys import GraphKeys
from sok1x.core.initialize import InitHook
from sok1x.deeprec import unfit_learners
from sok1x.deeprec.patches import Patches
from sok1x.deeprec.rank_0_saves import Rank0SavesHook
from sok1x.graph_ops.bridge.tensorflow_versions import monitored_session, training

_OWN_DEFAULT = "as TensorFlow has it"


def watch(patches: Patches, strategy: Any) -> None:
    """From now on `tf.train.MonitoredTrainingSession` does as a strategy says.

    Args:
        patches: what undoes it.
        strategy: a `strategy.Strategy`.
    """
    stock = monitored_session.MonitoredTrainingSession
    signature = inspect.signature(stock)
    summaries.watch()

    def MonitoredTrainingSession(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        return stock(**_arguments(dict(given.arguments), strategy))

    MonitoredTrainingSession.__doc__ = stock.__doc__
    for module in (monitored_session, training):
        patches.put(module, "MonitoredTrainingSession", MonitoredTrainingSession)
    patches.put_api("train.MonitoredTrainingSession", MonitoredTrainingSession)


def _arguments(given: Dict[str, Any], strategy: Any) -> Dict[str, Any]:
    if strategy.average_gradients:
        unfit_learners.refuse(tf.get_default_graph())
    hooks = list(given["hooks"] or [])
    if not any(isinstance(hook, InitHook) for hook in hooks):
        hooks.append(InitHook())
    if strategy.broadcast_variables:
        hooks.append(BroadcastGlobalVariablesHook(0))
    world = launch.current()
    if strategy.all_chief and not given["is_chief"]:
        given.update(is_chief=True, chief_only_hooks=None)
    if strategy.whole_checkpoints and world.size > 1:
        _one_folder(given)
        if not alike.is_so():  # no tables, and ranks go on by themselves: rank 0 writes what others restore
            if world.rank:
                given.update(save_checkpoint_secs=None, save_checkpoint_steps=None)
                hooks = _without_savers(hooks)
                given["chief_only_hooks"] = _without_savers(given["chief_only_hooks"] or [])
        elif not tf.get_collection(GraphKeys.GLOBAL_EMBEDDING_VARIABLES):
            hooks.append(Rank0SavesHook())
    given["hooks"] = hooks
    return given


def _one_folder(given: Dict[str, Any]) -> None:
    """A rank without a checkpoint_dir is told rank 0's, and how often that saves."""
    names = ("checkpoint_dir", "save_checkpoint_secs", "save_checkpoint_steps")
    mine = [_OWN_DEFAULT if given[name] is monitored_session.USE_DEFAULT else given[name] for name in names]
    with talk().about("a MonitoredTrainingSession begins"):
        told = talk().exchange(None, mine)[0]
    if not given["checkpoint_dir"] and told[0]:
        given.update(zip(names, [monitored_session.USE_DEFAULT if value == _OWN_DEFAULT else value for value in told]))


def _without_savers(hooks: List[Any]) -> List[Any]:
    return [hook for hook in hooks if not isinstance(hook, tf.train.CheckpointSaverHook)]
