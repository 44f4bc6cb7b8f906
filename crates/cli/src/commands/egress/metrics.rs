//! The boundary's counters, for Prometheus.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use namzu_sandbox::Error;
use namzu_sandbox::egress::Boundary;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::failure::local;

/// How many are served at once.
const AT_ONCE: usize = 16;

/// How long one may take: a scrape is done in no time.
const PATIENCE: Duration = Duration::from_secs(10);

/// Serves them until what it gives back is dropped.
pub(super) async fn serve(
    address: SocketAddr,
    boundary: Boundary,
) -> Result<(SocketAddr, JoinSet<()>), Error> {
    let failed = |err: io::Error| local(format!("listening on `{address}`"), err);
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    let mut task = JoinSet::new();
    task.spawn(accept(listener, boundary));
    Ok((bound, task))
}

async fn accept(listener: TcpListener, boundary: Boundary) {
    let mut served = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = served.join_next() => {}
            accepted = listener.accept(), if served.len() < AT_ONCE => match accepted {
                Ok((stream, _)) => {
                    served.spawn(tokio::time::timeout(PATIENCE, one(stream, boundary.clone())));
                }
                // Of descriptors there are none left: some will be given back.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }
}

async fn one(stream: TcpStream, boundary: Boundary) {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = page(request.method(), request.uri().path(), &boundary);
        async move { Ok::<_, Infallible>(response) }
    });
    // What goes wrong with a reader is the reader's.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

fn page(method: &Method, path: &str, boundary: &Boundary) -> Response<Full<Bytes>> {
    let mut response = Response::default();
    if method != Method::GET || path != "/metrics" {
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response;
    }
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    *response.body_mut() = Full::new(boundary.metrics().render().into());
    response
}
