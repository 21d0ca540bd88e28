"""Run by test_eager_keras.py: models whose variables `fit` makes in its first step, each rank its own."""
import numpy as np
import tensorflow as tf

tf.compat.v1.enable_v2_behavior()
import sok1x as sok  # noqa: E402
from sok1x import launch  # noqa: E402

KEYS, DIM, SAMPLES, BATCH = 40, 3, 48, 8
layers = tf.keras.layers


class Model(tf.keras.Model):
    """As Keras' guide has it: a layer knows its weights' shapes when it is called."""

    def __init__(self, embedding, begin):
        super().__init__()
        self.embedding, self.flat, self.hidden, self.out = embedding, layers.Flatten(), *dense_layers(begin)
        if launch.current().rank == 0:  # and the others in `fit`
            self.hidden.build([None, 2 * DIM])

    def call(self, keys):
        return self.out(self.hidden(self.flat(self.embedding(keys))))


class Built(Model):
    """All ranks have made all weights; rank 0 the optimizer's variables, too."""

    def __init__(self, embedding, begin):
        super().__init__(embedding, begin)
        for layer, shape in ((embedding, [None, 2, 1]), (self.hidden, [None, 2 * DIM]), (self.out, [None, 4])):
            if not layer.built:
                layer.build(shape)

    def compile(self, optimizer, *arguments, **options):
        super().compile(optimizer, *arguments, **options)
        if launch.current().rank == 0:
            self.optimizer.build(self.trainable_variables)


def dense_layers(begin):
    return [layers.Dense(units, kernel_initializer=tf.keras.initializers.Constant(begin)) for units in (4, 1)]


def sequential(embedding, begin):
    return tf.keras.Sequential([layers.Reshape([2, 1]), embedding, layers.Flatten(), *dense_layers(begin)])


def trained(make, embedding, begin, optimizer, part, loss_weight, **options):
    callbacks = options.pop("callbacks", None)
    model = make(embedding, begin)
    model.compile(optimizer, "mse", loss_weights=[loss_weight], **options)
    random = np.random.RandomState(7)
    keys, labels = random.randint(0, KEYS, [SAMPLES, 2, 1]), random.normal(size=[SAMPLES, 1])
    for epochs in (2, 1):
        model.fit(keys[part], labels[part], batch_size=len(labels[part]) * BATCH // SAMPLES, epochs=epochs, verbose=0,
                  shuffle=False, callbacks=callbacks)
    return model


def main():
    sok.init()
    rank, ranks = launch.current().rank, launch.current().size
    for make in (Model, sequential):
        for options in ({}, {"steps_per_execution": 3}, {"run_eagerly": True}):
            check(make, tf.keras.optimizers.Adam, options, rank, ranks)
    check(Model, tf.keras.optimizers.legacy.Adam, {}, rank, ranks)
    check(Built, tf.keras.optimizers.Adam, {"run_eagerly": True}, rank, ranks)
    check_begun_without_steps(rank)
    print("rank", rank, "ok")


def check(make, optimizer, options, rank, ranks):
    table = layers.Embedding(KEYS, DIM, embeddings_initializer="ones")
    expected = trained(make, table, 0.1, optimizer(0.02), slice(None), 1.0)
    layer = sok.All2AllDenseEmbedding(None, DIM, 2, 1, embedding_initializer="ones")
    model = trained(make, layer, 0.1 * (rank + 1), sok.DistributedOptimizer(optimizer(0.02), average=False),
                    slice(rank, None, ranks), 1.0 / ranks, callbacks=[sok.BroadcastGlobalVariablesCallback(0)],
                    **options)
    if make is Built or not options.get("run_eagerly"):  # whose first step is over before anybody knows its weights
        for one, other in zip(model.layers[-2:], expected.layers[-2:]):
            np.testing.assert_allclose(one.kernel, other.kernel, rtol=1e-4, atol=1e-5)
        keys, rows = sok.export(layer.embedding_variable)
        np.testing.assert_allclose(rows, tf.gather(table.embeddings, keys), rtol=1e-4, atol=1e-5)
    kernel = model.layers[-1].kernel.numpy().ravel()
    print("kernel {} {} {} {}".format(make.__name__, optimizer.__module__, options, kernel), flush=True)


def check_begun_without_steps(rank):
    """In a loop of one's own before `fit`, and in one that ends before its first step; then `fit` broadcasts."""
    model = sequential(sok.All2AllDenseEmbedding(None, DIM, 2, 1, embedding_initializer="ones"), 0.1 * (rank + 1))
    model.compile(sok.DistributedOptimizer(tf.keras.optimizers.SGD(0.0)), "mse")
    callback = sok.BroadcastGlobalVariablesCallback(0)
    lists = [tf.keras.callbacks.CallbackList([callback], model=model, epochs=1, steps=1) for _ in range(2)]
    lists[0].on_train_begin()
    model.make_train_function()
    for one in lists:
        one.on_train_begin()
    model.fit(np.zeros([4, 2, 1], np.int64), np.ones([4, 1]), batch_size=4, verbose=0, callbacks=[callback])
    np.testing.assert_allclose(model.layers[-1].kernel, np.full([4, 1], 0.1), rtol=1e-6)


if __name__ == "__main__":
    main()
