//! File calls, watches, tar streams and the v1 wires, against the built worker.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod calls;
mod download;
mod harness;
mod signed;
mod tar;
mod upload;
mod v1;
mod watch;
