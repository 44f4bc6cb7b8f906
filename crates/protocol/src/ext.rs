//! ext/v1: what neither envd's wire nor v1 has.

mod doors;
mod lane;
mod oldest;
mod probe;

use serde::{Deserialize, Serialize};

pub use self::doors::{
    DOOR_HEADER, Door, DoorsRequest, DoorsResponse, LOCAL_HEADER, MAX_DOOR_PORTS, parse_local,
};
pub use self::lane::{LaneError, LaneMessage, STDERR, STDIN, STDOUT};
pub use self::oldest::{InvalidOldest, format_oldest, parse_oldest};
pub use self::probe::{MAX_TRIES, Outcome, ProbeRequest, ProbeResponse, Try};
pub use crate::body::{from_json, to_json};
pub use crate::connect::ErrorBody;

/// Path of the description of the worker.
pub const INFO: &str = "/ext/v1/info";
/// Path of the kill of a tree.
pub const KILL: &str = "/ext/v1/kill";
/// Path of tar streams in and out.
pub const TAR: &str = "/ext/v1/tar";
/// Path of connections to a port inside.
pub const EXPOSE: &str = "/ext/v1/expose";
/// Path of the request to listen on a port inside.
pub const REACH: &str = "/ext/v1/reach";
/// Path of parked accepts.
pub const ACCEPT: &str = "/ext/v1/accept";
/// Path of tries of the sandbox's walls from inside.
pub const PROBE: &str = "/ext/v1/probe";
/// Path of the request to open the egress boundary's doors.
pub const DOORS: &str = "/ext/v1/doors";
/// Name of those doors among [`Info::features`].
pub const DOORS_FEATURE: &str = "doors";
/// Path of the end of everything.
pub const SHUTDOWN: &str = "/ext/v1/shutdown";

/// Header with the worker's token; `Authorization: Bearer` is the other way.
pub const TOKEN_HEADER: &str = "x-access-token";
/// Header (and trailer) with the oldest positions that can still be replayed.
pub const OLDEST_HEADER: &str = "namzu-oldest";
/// Name of the fd lane among [`Info::features`].
pub const LANE_FEATURE: &str = "lane";
/// Header (and trailer) beside the refusal of a start whose lane is of no use.
pub const LANE_HEADER: &str = "namzu-lane";
/// What [`LANE_HEADER`] says when no such message came over the lane.
pub const LANE_UNKNOWN: &str = "unknown";
/// What `:protocol` (HTTP/2) or `Upgrade` (HTTP/1.1) says for a raw duplex.
pub const UPGRADE_PROTOCOL: &str = "namzu";
/// Version of this extension.
pub const VERSION: u32 = 1;

/// What a worker says about itself. Absent fields are empty, so that an older worker can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Info {
    /// Version of the worker's build.
    pub version: String,
    /// Its own process id, as it sees it.
    pub pid: u32,
    /// It is process 1: its end is the sandbox's.
    pub pid1: bool,
    /// The user it runs as.
    pub uid: u32,
    /// Its workspace.
    pub workspace: String,
    /// What it can do beyond version 1, by name.
    pub features: Vec<String>,
}

/// Kills one process and, if asked, its whole tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KillRequest {
    /// The process by id. Exactly one of this and `tag` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The process by the name it was started under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Number of the signal.
    pub signal: i32,
    /// Descendants, session, group, and whoever carries the command's cookie, too.
    #[serde(default)]
    pub tree: bool,
}

/// How many processes got the signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KillResponse {
    /// Their number.
    pub killed: u32,
}

/// Asks to listen on a port of the loopback inside. The answer has the same shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    /// The port; 0 in a request lets the worker choose.
    pub port: u16,
}
