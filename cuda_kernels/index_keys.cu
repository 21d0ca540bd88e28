// The hash index turned round: the key of each row.
#include "hash_index.cuh"

// keys[i] = the key that has row first + i, for i in [0, n); where that row is not in use it is left.
SOK_KERNEL sok1x_keys_by_row(const Slot* SOK_RESTRICT index, i64 capacity, i64 first, i64 n, i64* SOK_RESTRICT keys) {
  SOK_PARALLEL_FOR(i, capacity, 16) {
    const i64 place = index[i].row - first;
    if (index[i].row >= 0 && place >= 0 && place < n) keys[place] = index[i].key;
  };
}

// keys[i] = the key of row first + i of a table without index.
SOK_KERNEL sok1x_direct_keys(i64 first, i64 n, i64 ranks, i64 rank, i64* keys) {
  SOK_PARALLEL_FOR(i, n, 8) { keys[i] = (first + i) * ranks + rank; };
}
