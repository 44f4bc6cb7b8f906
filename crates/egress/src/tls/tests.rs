//! Programs inside, the boundary, and hosts outside, all on loopback.

mod ground;
mod http1;
mod http2;
mod programs;
mod refusal;
