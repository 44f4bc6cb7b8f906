//! The worker over its wires: commands, kills, streams, tunnels, doors.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod doors;
mod egress;
mod input;
mod kill;
mod lane;
mod oom;
mod output;
mod process;
mod support;
mod tunnel;
