//! Changes of a directory, streamed or polled.

use serde::{Deserialize, Serialize};

use super::EntryInfo;
use crate::json::{self, ProtoEnum};
use crate::oneof::oneof_json;

/// What happened to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum EventType {
    /// None of the others.
    Unspecified = 0,
    /// It was made.
    Create = 1,
    /// It was written to.
    Write = 2,
    /// It was removed.
    Remove = 3,
    /// It was moved away.
    Rename = 4,
    /// Its mode or owner changed.
    Chmod = 5,
}

impl ProtoEnum for EventType {
    const NAMES: &'static [(i32, &'static str)] = &[
        (0, "EVENT_TYPE_UNSPECIFIED"),
        (1, "EVENT_TYPE_CREATE"),
        (2, "EVENT_TYPE_WRITE"),
        (3, "EVENT_TYPE_REMOVE"),
        (4, "EVENT_TYPE_RENAME"),
        (5, "EVENT_TYPE_CHMOD"),
    ];
}

macro_rules! nothing {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
        pub struct $name {}
    )*};
}

nothing! {
    /// The watcher is gone.
    RemoveWatcherResponse
    /// The watch is set; whatever happens from now on is seen.
    WatchStart
    /// Carries nothing; sent so that a quiet stream is not taken for a dead one.
    KeepAlive
}

macro_rules! watch_request {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $name {
            /// Which directory.
            #[prost(string, tag = "1")]
            #[serde(
                deserialize_with = "json::or_default",
                skip_serializing_if = "json::is_default"
            )]
            pub path: String,
            /// With everything below it.
            #[prost(bool, tag = "2")]
            #[serde(
                deserialize_with = "json::or_default",
                skip_serializing_if = "json::is_default"
            )]
            pub recursive: bool,
            /// Send the entry with each event.
            #[prost(bool, tag = "3")]
            #[serde(
                alias = "include_entry",
                deserialize_with = "json::or_default",
                skip_serializing_if = "json::is_default"
            )]
            pub include_entry: bool,
            /// Also where changes made elsewhere are not seen.
            #[prost(bool, tag = "4")]
            #[serde(
                alias = "allow_network_mounts",
                deserialize_with = "json::or_default",
                skip_serializing_if = "json::is_default"
            )]
            pub allow_network_mounts: bool,
        }
    )*};
}

watch_request! {
    /// Streams the changes of a directory.
    WatchDirRequest
    /// Makes a watcher of a directory that is polled.
    CreateWatcherRequest
}

/// One message of a watch; the first is the start.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(try_from = "RawWatch", into = "RawWatch")]
pub struct WatchDirResponse {
    /// Which message.
    #[prost(oneof = "watch_dir_response::Event", tags = "1, 2, 3")]
    pub event: Option<watch_dir_response::Event>,
}

/// The oneof of [`WatchDirResponse`].
pub mod watch_dir_response {
    /// Which message of a watch.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Event {
        /// The watch is set.
        #[prost(message, tag = "1")]
        Start(super::WatchStart),
        /// Something changed.
        #[prost(message, tag = "2")]
        Filesystem(super::FilesystemEvent),
        /// Nothing.
        #[prost(message, tag = "3")]
        Keepalive(super::KeepAlive),
    }
}

oneof_json! {
    WatchDirResponse as RawWatch { event: watch_dir_response::Event {
        start: Start(WatchStart),
        filesystem: Filesystem(FilesystemEvent),
        keepalive: Keepalive(KeepAlive),
    } }
}

impl From<watch_dir_response::Event> for WatchDirResponse {
    fn from(event: watch_dir_response::Event) -> Self {
        Self { event: Some(event) }
    }
}

/// One change.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct FilesystemEvent {
    /// Path below the watched directory.
    #[prost(string, tag = "1")]
    #[serde(
        deserialize_with = "json::or_default",
        skip_serializing_if = "json::is_default"
    )]
    pub name: String,
    /// The number of an [`EventType`].
    #[prost(enumeration = "EventType", tag = "2")]
    #[serde(
        rename = "type",
        with = "json::Enum::<EventType>",
        skip_serializing_if = "json::is_default"
    )]
    pub r#type: i32,
    /// The entry, if it was asked for and is still there.
    #[prost(message, optional, boxed, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<Box<EntryInfo>>,
}

/// Names a new watcher.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CreateWatcherResponse {
    /// Its name.
    #[prost(string, tag = "1")]
    #[serde(
        alias = "watcher_id",
        deserialize_with = "json::or_default",
        skip_serializing_if = "json::is_default"
    )]
    pub watcher_id: String,
}

macro_rules! about_watcher {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $name {
            /// The watcher's name.
            #[prost(string, tag = "1")]
            #[serde(
                alias = "watcher_id",
                deserialize_with = "json::or_default",
                skip_serializing_if = "json::is_default"
            )]
            pub watcher_id: String,
        }
    )*};
}

about_watcher! {
    /// Asks what happened since the last time.
    GetWatcherEventsRequest
    /// Ends a watcher.
    RemoveWatcherRequest
}

/// What happened since the last time.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct GetWatcherEventsResponse {
    /// The changes, oldest first.
    #[prost(message, repeated, tag = "1")]
    #[serde(
        deserialize_with = "json::list::deserialize",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub events: Vec<FilesystemEvent>,
}
