//! HTTP/1.1 between programs inside and the outside: one strict reading of each head, rewritten and sent on.

pub(crate) mod pool;
