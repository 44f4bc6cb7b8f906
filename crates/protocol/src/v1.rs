//! The v1 wires: HTTP with NDJSON, and length-prefixed frames.

mod content;
mod event;
mod frame;
mod ndjson;
mod request;
mod utf8;

pub use self::content::{Encoding, InvalidContent};
pub use self::event::{Event, ExecuteResult};
pub use self::frame::{FRAME_HEADER_LEN, FrameDecoder, FrameError, encode_frame, is_frame_header};
pub use self::ndjson::{LineDecoder, LineError, encode_line};
pub use self::request::{
    ExecuteRequest, FrameRequest, FrameRequestError, Health, ReadFileRequest, ReadFileResponse,
    Refusal, WriteFileRequest, WriteFileResponse,
};
pub use self::utf8::Utf8Decoder;

/// Path of the health check.
pub const HEALTHZ: &str = "/healthz";
/// Path of a command.
pub const EXECUTE: &str = "/execute";
/// Path of a read.
pub const READ_FILE: &str = "/read-file";
/// Path of a write.
pub const WRITE_FILE: &str = "/write-file";
/// Content type of a command's events.
pub const NDJSON: &str = "application/x-ndjson";
/// The port over HTTP when none is given.
pub const DEFAULT_HTTP_PORT: u16 = 2024;
/// The vsock port of frames when none is given.
pub const DEFAULT_VSOCK_PORT: u32 = 1024;
/// Milliseconds that a command may run when it does not say.
pub const DEFAULT_TIMEOUT_MS: u64 = 5 * 60 * 1000;
/// Bytes kept of each output stream when a command does not say.
pub const DEFAULT_MAX_OUTPUT_BYTES: u64 = 100 << 20;
/// Bytes of the longest request body when the worker is not told.
pub const DEFAULT_MAX_BODY_BYTES: u64 = 8 << 20;
