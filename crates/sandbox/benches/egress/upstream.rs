//! The server that tunnels lead to, in a process of its own. The first byte says what it does.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::Result;

/// Sends a gibibyte.
pub(crate) const DOWN: u8 = b'D';
/// Takes a gibibyte, and sends a byte.
pub(crate) const UP: u8 = b'U';
/// Sends each byte back, the first too.
pub(crate) const ECHO: u8 = b'E';
/// Breaks off.
pub(crate) const RESET: u8 = b'R';

pub(crate) const GIB: u64 = 1 << 30;
pub(crate) const CHUNK: usize = 256 * 1024;

/// Listens on two ports, says which, and serves until it is told nothing more.
pub(crate) fn act() -> Result<()> {
    crate::runtime()?.block_on(async {
        let one = TcpListener::bind("127.0.0.1:0").await?;
        let other = TcpListener::bind("127.0.0.1:0").await?;
        println!(
            "{} {}",
            one.local_addr()?.port(),
            other.local_addr()?.port()
        );
        tokio::spawn(accept(one));
        tokio::spawn(accept(other));
        tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()))
            .await??;
        Ok(())
    })
}

async fn accept(listener: TcpListener) {
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    }
}

async fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut first = stream.read_u8().await?;
    match first {
        DOWN => {
            let chunk = vec![0x5a; CHUNK];
            for _ in 0..GIB / CHUNK as u64 {
                stream.write_all(&chunk).await?;
            }
        }
        UP => {
            let mut chunk = vec![0; CHUNK];
            let mut seen = 0;
            while seen < GIB {
                match stream.read(&mut chunk).await? {
                    0 => return Ok(()),
                    read => seen += read as u64,
                }
            }
            stream.write_u8(UP).await?;
        }
        RESET => stream.set_zero_linger()?,
        _ => loop {
            stream.write_u8(first).await?;
            first = stream.read_u8().await?;
            if first == RESET {
                return stream.set_zero_linger();
            }
        },
    }
    Ok(())
}
