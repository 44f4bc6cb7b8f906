//! The worker over its wires: commands, kills, streams, tunnels, doors.

mod doors;
mod input;
mod kill;
mod lane;
mod output;
mod process;
mod support;
mod tunnel;
