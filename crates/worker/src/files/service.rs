//! `filesystem.Filesystem`: the calls of the RPC service.

use std::sync::Arc;

use http::StatusCode;
use namzu_protocol::connect::Code;
use namzu_protocol::filesystem::{
    self as wire, CreateWatcherRequest, CreateWatcherResponse, EntryInfo, GetWatcherEventsRequest,
    GetWatcherEventsResponse, KeepAlive, ListDirRequest, ListDirResponse, MakeDirRequest,
    MakeDirResponse, MoveRequest, MoveResponse, RemoveRequest, RemoveResponse,
    RemoveWatcherRequest, RemoveWatcherResponse, StatRequest, StatResponse, WatchDirRequest,
    WatchDirResponse, watch_dir_response,
};
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;

use super::fail::{Fail, Kind, Outcome, show};
use super::jail::{Access, Jail, Last, Parents};
use super::state::{absolute, check_headers};
use super::stop::{Stop, blocking};
use super::watch::{Watch, WatchStream, Wish};
use super::{entry, tree};
use crate::http::{self as web, Request, Response};
use crate::rpc;
use crate::worker::Worker;

impl From<Fail> for rpc::Error {
    fn from(fail: Fail) -> Self {
        let code = match fail.kind {
            Kind::NotFound => Code::NotFound,
            Kind::AlreadyExists => Code::AlreadyExists,
            Kind::InvalidArgument => Code::InvalidArgument,
            Kind::Refused | Kind::Denied => Code::PermissionDenied,
            Kind::NoSpace | Kind::TooMuch => Code::ResourceExhausted,
            Kind::Unauthenticated => Code::Unauthenticated,
            Kind::Internal => Code::Internal,
        };
        Self::new(code, fail.message)
    }
}

/// Answers one call of the service.
pub(super) async fn handle(worker: Arc<Worker>, request: Request) -> Response {
    let named = check_headers(&worker.config, request.headers());
    let call = Call { worker, named };
    match request.uri().path() {
        wire::STAT => rpc::unary(request, |message| call.stat(message)).await,
        wire::MAKE_DIR => rpc::unary(request, |message| call.make_dir(message)).await,
        wire::MOVE => rpc::unary(request, |message| call.rename(message)).await,
        wire::LIST_DIR => rpc::unary(request, |message| call.list(message)).await,
        wire::REMOVE => rpc::unary(request, |message| call.remove(message)).await,
        wire::WATCH_DIR => {
            let keepalive = || watch_dir_response::Event::Keepalive(KeepAlive {}).into();
            rpc::server_stream(request, keepalive, |message| call.watch(message)).await
        }
        wire::CREATE_WATCHER => rpc::unary(request, |message| call.create_watcher(message)).await,
        wire::GET_WATCHER_EVENTS => {
            rpc::unary(request, |message| call.watcher_events(message)).await
        }
        wire::REMOVE_WATCHER => rpc::unary(request, |message| call.remove_watcher(message)).await,
        _ => web::error(StatusCode::NOT_FOUND, "no such call"),
    }
}

struct Call {
    worker: Arc<Worker>,
    /// Whether the user that the request names is served.
    named: Outcome<()>,
}

impl Call {
    /// Runs `work` on a path where it may block.
    async fn on_path<T: Send + 'static>(
        self,
        text: &str,
        work: impl FnOnce(&Jail, &[u8], &Stop) -> Outcome<T> + Send + 'static,
    ) -> Result<T, rpc::Error> {
        self.named.clone()?;
        let path = absolute(&self.worker.config, text.as_bytes())?;
        let jail = Arc::clone(&self.worker.files.jail);
        Ok(blocking(move |stop| work(&jail, &path, stop)).await?)
    }

    async fn stat(self, request: StatRequest) -> Result<StatResponse, rpc::Error> {
        let entry = self
            .on_path(&request.path, |jail, path, _| stat(jail, path))
            .await?;
        Ok(StatResponse { entry: Some(entry) })
    }

    async fn make_dir(self, request: MakeDirRequest) -> Result<MakeDirResponse, rpc::Error> {
        let entry = self
            .on_path(&request.path, |jail, path, _| make_dir(jail, path))
            .await?;
        Ok(MakeDirResponse { entry: Some(entry) })
    }

    async fn rename(self, request: MoveRequest) -> Result<MoveResponse, rpc::Error> {
        let to = absolute(&self.worker.config, request.destination.as_bytes())?;
        let entry = self
            .on_path(&request.source, move |jail, from, _| {
                rename(jail, from, &to)
            })
            .await?;
        Ok(MoveResponse { entry: Some(entry) })
    }

    async fn list(self, request: ListDirRequest) -> Result<ListDirResponse, rpc::Error> {
        let depth = request.depth.max(1);
        let entries = self
            .on_path(&request.path, move |jail, path, stop| {
                let place = jail.existing(path, Access::Read)?;
                tree::list(jail, &place, path, depth, stop)
            })
            .await?;
        Ok(ListDirResponse { entries })
    }

    async fn remove(self, request: RemoveRequest) -> Result<RemoveResponse, rpc::Error> {
        self.on_path(&request.path, |jail, path, stop| {
            match jail.place(path, Access::Write, Last::Keep, Parents::Required) {
                Ok(place) => tree::remove(&place, path, stop),
                // A parent that is missing makes it as absent as can be.
                Err(fail) if fail.kind == Kind::NotFound => Ok(()),
                Err(fail) => Err(fail),
            }
        })
        .await?;
        Ok(RemoveResponse {})
    }

    async fn watch(
        self,
        request: WatchDirRequest,
    ) -> Result<rpc::Replies<WatchDirResponse>, rpc::Error> {
        let WatchDirRequest {
            path,
            recursive,
            include_entry,
            allow_network_mounts,
        } = request;
        let watch = self
            .open_watch(&path, recursive, include_entry, allow_network_mounts)
            .await?;
        Ok(Box::pin(WatchStream::new(watch)))
    }

    async fn create_watcher(
        self,
        request: CreateWatcherRequest,
    ) -> Result<CreateWatcherResponse, rpc::Error> {
        let CreateWatcherRequest {
            path,
            recursive,
            include_entry,
            allow_network_mounts,
        } = request;
        let worker = Arc::clone(&self.worker);
        let watch = self
            .open_watch(&path, recursive, include_entry, allow_network_mounts)
            .await?;
        Ok(CreateWatcherResponse {
            watcher_id: worker.files.watchers.add(watch)?,
        })
    }

    async fn open_watch(
        self,
        path: &str,
        recursive: bool,
        include_entry: bool,
        allow_network_mounts: bool,
    ) -> Result<Watch, rpc::Error> {
        let jail = Arc::clone(&self.worker.files.jail);
        self.on_path(path, move |_, path, _| {
            let path = path.to_vec();
            Watch::open(
                jail,
                Wish {
                    path,
                    recursive,
                    include_entry,
                    allow_network_mounts,
                },
            )
        })
        .await
    }

    #[expect(clippy::unused_async, reason = "the service's calls have one form")]
    async fn watcher_events(
        self,
        request: GetWatcherEventsRequest,
    ) -> Result<GetWatcherEventsResponse, rpc::Error> {
        let events = self.worker.files.watchers.take(&request.watcher_id)?;
        Ok(GetWatcherEventsResponse { events })
    }

    #[expect(clippy::unused_async, reason = "the service's calls have one form")]
    async fn remove_watcher(
        self,
        request: RemoveWatcherRequest,
    ) -> Result<RemoveWatcherResponse, rpc::Error> {
        self.worker.files.watchers.remove(&request.watcher_id)?;
        Ok(RemoveWatcherResponse {})
    }
}

fn stat(jail: &Jail, path: &[u8]) -> Outcome<EntryInfo> {
    let place = jail.place(path, Access::Read, Last::Keep, Parents::Required)?;
    entry::of_place(jail, &place, path).map_err(|errno| Fail::errno("stat", path, errno))
}

fn make_dir(jail: &Jail, path: &[u8]) -> Outcome<EntryInfo> {
    let place = jail.place(path, Access::Write, Last::Follow, Parents::Made)?;
    match rustix::fs::mkdirat(place.dir(), place.name(), Mode::from_raw_mode(0o755)) {
        Ok(()) => {}
        Err(Errno::EXIST) => {
            let is_dir = place
                .stat()
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
            return Err(if is_dir {
                Fail::new(
                    Kind::AlreadyExists,
                    format!("directory already exists: {}", show(path)),
                )
            } else {
                Fail::invalid(format!(
                    "path already exists but it is not a directory: {}",
                    show(path)
                ))
            });
        }
        Err(errno) => return Err(Fail::errno("make directory", path, errno)),
    }
    stat(jail, path)
}

fn rename(jail: &Jail, from: &[u8], to: &[u8]) -> Outcome<EntryInfo> {
    let source = jail.place(from, Access::Write, Last::Keep, Parents::Required)?;
    // Looked at first, so that a failed move leaves no new directories.
    source
        .stat()
        .map_err(|errno| Fail::errno("move", from, errno))?;
    let destination = jail.place(to, Access::Write, Last::Keep, Parents::Made)?;
    rustix::fs::renameat(
        source.dir(),
        source.name(),
        destination.dir(),
        destination.name(),
    )
    .map_err(|errno| match errno {
        Errno::XDEV => Fail::invalid(format!(
            "move '{}' to '{}': they are on different file systems",
            show(from),
            show(to)
        )),
        other => Fail::errno("move", from, other),
    })?;
    entry::of_place(jail, &destination, to).map_err(|errno| Fail::errno("stat", to, errno))
}
