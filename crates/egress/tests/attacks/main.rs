//! Every attack on an egress boundary that is known to have worked on one, against the real thing: the
//! public interface, real sockets, and servers that tell who reached them.
//!
//! A test's number is that of the attack in `docs/egress.md`; a door's name follows it where the same
//! attack is tried on several. A test holds two things: that the answer is the right one, and that the
//! outside saw nothing, or exactly what it should.
//!
//! Attacks that are on what lies around the boundary, not on it, are tested where that is made: 109 to
//! 112 and 114 in the conformance suite's `egress` and `isolation` cases, 115 in the process backend.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[cfg(target_os = "linux")]
mod addresses;
#[cfg(target_os = "linux")]
mod bench;
#[cfg(target_os = "linux")]
mod binding;
#[cfg(target_os = "linux")]
mod control;
#[cfg(target_os = "linux")]
mod credentials;
#[cfg(target_os = "linux")]
mod dns;
#[cfg(target_os = "linux")]
mod doors;
#[cfg(target_os = "linux")]
mod framing;
#[cfg(target_os = "linux")]
mod fuzz;
#[cfg(target_os = "linux")]
mod names;
#[cfg(target_os = "linux")]
mod policies;
#[cfg(target_os = "linux")]
mod ports;
#[cfg(target_os = "linux")]
mod resources;
#[cfg(target_os = "linux")]
mod usual;
#[cfg(target_os = "linux")]
mod wire;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    bench::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {}
