//! Messages of `filesystem.Filesystem`: entries, directories and watches.

mod watch;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::watch::{
    CreateWatcherRequest, CreateWatcherResponse, EventType, FilesystemEvent,
    GetWatcherEventsRequest, GetWatcherEventsResponse, KeepAlive, RemoveWatcherRequest,
    RemoveWatcherResponse, WatchDirRequest, WatchDirResponse, WatchStart, watch_dir_response,
};
use crate::Timestamp;
use crate::json::{self, ProtoEnum};

/// Path of the unary call that describes an entry.
pub const STAT: &str = "/filesystem.Filesystem/Stat";
/// Path of the unary call that makes a directory and its parents.
pub const MAKE_DIR: &str = "/filesystem.Filesystem/MakeDir";
/// Path of the unary call that moves an entry.
pub const MOVE: &str = "/filesystem.Filesystem/Move";
/// Path of the unary call that lists a directory.
pub const LIST_DIR: &str = "/filesystem.Filesystem/ListDir";
/// Path of the unary call that removes an entry and all below it.
pub const REMOVE: &str = "/filesystem.Filesystem/Remove";
/// Path of the server stream of changes.
pub const WATCH_DIR: &str = "/filesystem.Filesystem/WatchDir";
/// Path of the unary call that makes a watcher to poll.
pub const CREATE_WATCHER: &str = "/filesystem.Filesystem/CreateWatcher";
/// Path of the unary call that polls a watcher.
pub const GET_WATCHER_EVENTS: &str = "/filesystem.Filesystem/GetWatcherEvents";
/// Path of the unary call that ends a watcher.
pub const REMOVE_WATCHER: &str = "/filesystem.Filesystem/RemoveWatcher";

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum FileType {
    /// None of the others.
    Unspecified = 0,
    /// A regular file.
    File = 1,
    /// A directory.
    Directory = 2,
    /// A symbolic link whose target does not exist.
    Symlink = 3,
}

impl ProtoEnum for FileType {
    const NAMES: &'static [(i32, &'static str)] = &[
        (0, "FILE_TYPE_UNSPECIFIED"),
        (1, "FILE_TYPE_FILE"),
        (2, "FILE_TYPE_DIRECTORY"),
        (3, "FILE_TYPE_SYMLINK"),
    ];
}

/// One entry of a file system.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EntryInfo {
    /// Its name without the path.
    #[prost(string, tag = "1")]
    #[serde(
        deserialize_with = "json::or_default",
        skip_serializing_if = "json::is_default"
    )]
    pub name: String,
    /// The number of a [`FileType`]; of a symbolic link, its target's.
    #[prost(enumeration = "FileType", tag = "2")]
    #[serde(
        rename = "type",
        with = "json::Enum::<FileType>",
        skip_serializing_if = "json::is_default"
    )]
    pub r#type: i32,
    /// Its path.
    #[prost(string, tag = "3")]
    #[serde(
        deserialize_with = "json::or_default",
        skip_serializing_if = "json::is_default"
    )]
    pub path: String,
    /// Its size in bytes.
    #[prost(int64, tag = "4")]
    #[serde(with = "json::int64", skip_serializing_if = "json::is_default")]
    pub size: i64,
    /// Its permission bits.
    #[prost(uint32, tag = "5")]
    #[serde(with = "json::int", skip_serializing_if = "json::is_default")]
    pub mode: u32,
    /// Its mode in words, as [`permissions`](crate::permissions) writes it.
    #[prost(string, tag = "6")]
    #[serde(
        deserialize_with = "json::or_default",
        skip_serializing_if = "json::is_default"
    )]
    pub permissions: String,
    /// Name of its owner.
    #[prost(string, tag = "7")]
    #[serde(
        deserialize_with = "json::or_default",
        skip_serializing_if = "json::is_default"
    )]
    pub owner: String,
    /// Name of its group.
    #[prost(string, tag = "8")]
    #[serde(
        deserialize_with = "json::or_default",
        skip_serializing_if = "json::is_default"
    )]
    pub group: String,
    /// When its content last changed.
    #[prost(message, optional, tag = "9")]
    #[serde(alias = "modified_time", skip_serializing_if = "Option::is_none")]
    pub modified_time: Option<Timestamp>,
    /// Of a symbolic link: where it leads.
    #[prost(string, optional, tag = "10")]
    #[serde(alias = "symlink_target", skip_serializing_if = "Option::is_none")]
    pub symlink_target: Option<String>,
    /// What was stored with it at upload.
    #[prost(btree_map = "string, string", tag = "11")]
    #[serde(
        deserialize_with = "json::or_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub metadata: BTreeMap<String, String>,
    /// It is a symbolic link.
    #[prost(bool, tag = "12")]
    #[serde(
        alias = "is_symlink",
        deserialize_with = "json::or_default",
        skip_serializing_if = "json::is_default"
    )]
    pub is_symlink: bool,
}

macro_rules! about_path {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name {
            /// Absolute, `~`, or relative to the user's home.
            #[prost(string, tag = "1")]
            #[serde(
                deserialize_with = "json::or_default",
                skip_serializing_if = "json::is_default"
            )]
            pub path: String,
        }
    )*};
}

about_path! {
    /// Asks what an entry is.
    StatRequest
    /// Asks for a directory and its parents.
    MakeDirRequest
    /// Asks that an entry and all below it be gone.
    RemoveRequest
}

macro_rules! one_entry {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name {
            /// The entry.
            #[prost(message, optional, tag = "1")]
            #[serde(skip_serializing_if = "Option::is_none")]
            pub entry: Option<EntryInfo>,
        }
    )*};
}

one_entry! {
    /// What the entry is.
    StatResponse
    /// The directory that was made.
    MakeDirResponse
    /// The entry in its new place.
    MoveResponse
}

/// It is gone, or never was.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
pub struct RemoveResponse {}

/// Moves an entry, making the parents of its new place.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct MoveRequest {
    /// From here.
    #[prost(string, tag = "1")]
    #[serde(
        deserialize_with = "json::or_default",
        skip_serializing_if = "json::is_default"
    )]
    pub source: String,
    /// To there.
    #[prost(string, tag = "2")]
    #[serde(
        deserialize_with = "json::or_default",
        skip_serializing_if = "json::is_default"
    )]
    pub destination: String,
}

/// Lists a directory.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct ListDirRequest {
    /// Which one.
    #[prost(string, tag = "1")]
    #[serde(
        deserialize_with = "json::or_default",
        skip_serializing_if = "json::is_default"
    )]
    pub path: String,
    /// How many levels; 0 means 1.
    #[prost(uint32, tag = "2")]
    #[serde(with = "json::int", skip_serializing_if = "json::is_default")]
    pub depth: u32,
}

/// The entries of a directory, at most [`MAX_LIST_ITEMS`](crate::MAX_LIST_ITEMS).
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct ListDirResponse {
    /// The entries.
    #[prost(message, repeated, tag = "1")]
    #[serde(
        deserialize_with = "json::list::deserialize",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub entries: Vec<EntryInfo>,
}
