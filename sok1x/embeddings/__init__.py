"""The embedding layers, under SOK's dotted names.

    all2all_dense_embedding  a fixed number of keys a slot, a row for each
    distributed_embedding    any number of them, combined
    layer                    what both have in common
    call_checks              what they are called with, checked
    keras_inputs             sparse keys of a functional Keras model
    learning_phase           whether a call trains
    lookup_training          and a lookup that is no layer
    precision                Keras' policies
    scope_reuse              variable scopes in which a layer would be made once more
    autograph                kept out of this code
"""
