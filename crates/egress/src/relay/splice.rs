//! From socket to socket within the kernel: the bytes are never seen here.

use std::io;
use std::pin::pin;

use rustix::net::Shutdown;
use rustix::pipe::{SpliceFlags, splice};
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::stock::{PIPE, Pipe};
use super::{End, Meter, Way};

/// Carries both ways until both have ended.
pub(super) async fn both(
    meter: &Meter<'_>,
    inside: &TcpStream,
    outside: &TcpStream,
) -> Result<(), End> {
    let mut up = pin!(one_way(meter, Way::Up, inside, outside));
    let mut down = pin!(one_way(meter, Way::Down, outside, inside));
    // Of a side that has sent its last, a reset would not be noticed by reading.
    tokio::select! {
        ended = &mut up => {
            ended?;
            tokio::select! {
                ended = &mut down => ended,
                () = broken(inside) => Err(End::Broken),
            }
        }
        ended = &mut down => {
            ended?;
            tokio::select! {
                ended = &mut up => ended,
                () = broken(outside) => Err(End::Broken),
            }
        }
    }
}

/// Waits until the peer of a socket has reset it.
pub(crate) async fn broken(socket: &TcpStream) {
    // An error to wait at all is one of the runtime's shutting down.
    let _ = socket.ready(Interest::ERROR).await;
}

async fn one_way(meter: &Meter<'_>, way: Way, from: &TcpStream, to: &TcpStream) -> Result<(), End> {
    loop {
        from.readable().await.map_err(|_| End::Broken)?;
        let burst = match meter.stock.pipe(&meter.flow.place.lent) {
            Some(mut pipe) => spliced(meter, way, from, to, &mut pipe).await?,
            None => Burst::Refused,
        };
        let burst = match burst {
            Burst::Refused => copied(meter, way, from, to).await?,
            burst => burst,
        };
        if matches!(burst, Burst::Ended) {
            // A peer that is gone by now needs no telling.
            let _ = rustix::net::shutdown(to, Shutdown::Write);
            return Ok(());
        }
    }
}

/// How a burst of bytes was over.
enum Burst {
    /// There are no more now.
    Dry,
    /// There will be no more.
    Ended,
    /// The kernel does not splice these.
    Refused,
}

/// Moves what is there through a pipe, which is empty again unless this fails.
async fn spliced(
    meter: &Meter<'_>,
    way: Way,
    from: &TcpStream,
    to: &TcpStream,
    pipe: &mut Pipe<'_>,
) -> Result<Burst, End> {
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    loop {
        let got = from.try_io(Interest::READABLE, || {
            Ok(splice(from, None, pipe.write_end()?, None, PIPE, flags)?)
        });
        match got {
            Ok(0) => return Ok(Burst::Ended),
            Ok(got) => pipe.held = got,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Burst::Dry),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if refused(&error) => return Ok(Burst::Refused),
            Err(_) => return Err(End::Broken),
        }
        meter.count(way, pipe.held)?;
        while pipe.held > 0 {
            let put = to.try_io(Interest::WRITABLE, || {
                Ok(splice(pipe.read_end()?, None, to, None, pipe.held, flags)?)
            });
            match put {
                Ok(0) => return Err(End::Broken),
                Ok(put) => pipe.held = pipe.held.saturating_sub(put),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    to.writable().await.map_err(|_| End::Broken)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(End::Broken),
            }
        }
        // Two fast peers must not keep a thread for themselves.
        tokio::task::consume_budget().await;
    }
}

fn refused(error: &io::Error) -> bool {
    matches!(
        rustix::io::Errno::from_io_error(error),
        Some(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::PERM)
    )
}

/// Moves what is there through a buffer.
async fn copied(
    meter: &Meter<'_>,
    way: Way,
    from: &TcpStream,
    to: &TcpStream,
) -> Result<Burst, End> {
    let mut buffer = meter.stock.buffer();
    loop {
        let got = match from.try_read(&mut buffer) {
            Ok(0) => return Ok(Burst::Ended),
            Ok(got) => got,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Burst::Dry),
            Err(_) => return Err(End::Broken),
        };
        meter.count(way, got)?;
        let mut left = &buffer[..got];
        while !left.is_empty() {
            match to.try_write(left) {
                Ok(0) => return Err(End::Broken),
                Ok(put) => left = &left[put..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    to.writable().await.map_err(|_| End::Broken)?;
                }
                Err(_) => return Err(End::Broken),
            }
        }
        tokio::task::consume_budget().await;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// One burst through a buffer, as when the kernel refuses to splice.
    pub(in crate::relay) async fn copy_burst(
        meter: &Meter<'_>,
        from: &TcpStream,
        to: &TcpStream,
    ) -> Result<bool, End> {
        from.readable().await.map_err(|_| End::Broken)?;
        Ok(matches!(
            copied(meter, Way::Up, from, to).await?,
            Burst::Ended
        ))
    }
}
