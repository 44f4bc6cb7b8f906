//! TLS that ends at the boundary, on both sides.

pub(crate) mod ca;
