"""What `python -m sok1x.checkpoint` does.

    show               says what a checkpoint holds
    verify             reads every block
    export             writes tables in other formats
    export_arrays      .npz, and plain files
    export_tensorflow  a checkpoint of dense variables
"""
