//! How much a peer of an HTTP/2 connection may make the boundary hold.

use ::h2::{client, server};

/// Requests at once on one connection.
const STREAMS: u32 = 100;
/// The same, as a usize.
const STREAMS_AT_FIRST: usize = 100;
/// Bytes of a head, as HPACK counts them.
const HEAD: u32 = 32 * 1024;
/// Bytes of one body that are under way to the boundary and not taken on yet.
const STREAM_WINDOW: u32 = 512 * 1024;
/// The same, of all bodies of a connection.
const WINDOW: u32 = 1024 * 1024;
/// Bytes of one body that wait to be sent on: a frame's worth. No window bounds them together, since whoever
/// is to take them chooses it, so that a connection holds a hundred times as many.
const UNSENT: usize = 16 * 1024;
/// Resets before a request was even looked at: more in a row are an attack.
const RAPID: usize = 32;
/// Resets that the boundary itself had to send for broken requests.
const BROKEN: usize = 256;

/// Towards programs inside.
pub(in crate::tls) fn server() -> server::Builder {
    let mut builder = server::Builder::new();
    builder
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEAD)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buffer_size(UNSENT)
        .max_pending_accept_reset_streams(RAPID)
        .max_local_error_reset_streams(Some(BROKEN))
        .max_concurrent_reset_streams(RAPID);
    builder
}

/// Towards the outside, whose answers are not to be trusted with memory either.
pub(super) fn client() -> client::Builder {
    let mut builder = client::Builder::new();
    builder
        .enable_push(false)
        // Until it has said how many it takes.
        .initial_max_send_streams(STREAMS_AT_FIRST)
        .max_header_list_size(HEAD)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buffer_size(UNSENT)
        .max_local_error_reset_streams(Some(BROKEN))
        .max_concurrent_reset_streams(RAPID);
    builder
}
