//! Programs as they are, in a sandbox whose only way out is the boundary: package managers, git, curl, HTTP
//! libraries, gRPC. What they talk to is in a network that this binary makes, and nothing leaves the
//! machine.
//!
//! Each goes out in up to three ways. `passthrough`: by a rule that only names the host; the program trusts
//! the server because it is told to, in its own words. `ended`: by a rule with a credential, so that TLS
//! ends at the boundary; the program is told nothing, and every request has to arrive with the secret that
//! it does not know. `denied`: to a host that no rule names, which fails at once and is in the audit.
//!
//! `cargo xtask test` installs what is missing here. A guest that cannot run is ignored, or failed where
//! `NAMZU_REQUIRE` names `guests`.
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

#[cfg(target_os = "linux")]
mod bench;
#[cfg(target_os = "linux")]
mod guest;
#[cfg(target_os = "linux")]
mod outside;
#[cfg(target_os = "linux")]
mod packages;
#[cfg(target_os = "linux")]
mod place;
#[cfg(target_os = "linux")]
mod streams;
#[cfg(target_os = "linux")]
mod web;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    bench::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {}
