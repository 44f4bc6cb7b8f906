//! Programs that want out: through a proxy, or by the address of a name.

use std::io::{Error, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::json;

use crate::Result;
use crate::boundary::{ALIASES, NAME, alias};
use crate::sample::percentile;
use crate::upstream::ECHO;

/// Nothing that is waited for takes as long.
const PATIENCE: Duration = Duration::from_secs(30);

/// By which way a tunnel is opened.
#[derive(Clone, Debug)]
pub(crate) enum Door {
    /// None: the server itself, or the address of a name.
    Direct(SocketAddr),
    /// CONNECT.
    Proxy {
        at: SocketAddr,
        /// `host:port`.
        target: String,
        /// What `Proxy-Authorization` says.
        password: Option<String>,
    },
}

impl Door {
    /// A tunnel to the server.
    pub(crate) fn open(&self) -> std::io::Result<TcpStream> {
        let (at, head) = match self {
            Self::Direct(at) => (at, None),
            Self::Proxy { at, .. } => (at, Some(self.head())),
        };
        let mut stream = TcpStream::connect(at)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        if let Some(head) = head {
            stream.write_all(head.as_bytes())?;
            let mut answer = [0; 1024];
            let mut length = 0;
            while !answer[..length].ends_with(b"\r\n\r\n") {
                match stream.read(&mut answer[length..])? {
                    0 => return Err(Error::other("the proxy ended")),
                    read => length += read,
                }
            }
            if answer.get(8..12) != Some(b" 200") {
                let said = String::from_utf8_lossy(&answer[..length]).into_owned();
                return Err(Error::other(said));
            }
        }
        Ok(stream)
    }

    /// What is said to a proxy first.
    pub(crate) fn head(&self) -> String {
        let Self::Proxy {
            target, password, ..
        } = self
        else {
            return String::new();
        };
        let password = password.as_ref().map_or_else(String::new, |password| {
            format!("Proxy-Authorization: {password}\r\n")
        });
        format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{password}\r\n")
    }
}

/// One byte there and back.
pub(crate) fn trip(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut byte = [ECHO];
    stream.write_all(&byte)?;
    stream.read_exact(&mut byte)
}

/// What came of opening tunnels one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opened {
    pub(crate) each_second: f64,
    pub(crate) count: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Opened {
    /// As the role `client` says it.
    pub(crate) fn read(line: &str) -> Result<Self> {
        let told: serde_json::Value =
            serde_json::from_str(line).map_err(|_| format!("the client says `{line}`"))?;
        let number = |name: &str| told[name].as_f64().ok_or_else(|| line.to_owned());
        Ok(Self {
            each_second: number("perSecond")?,
            count: number("count")?,
            p50: number("p50")?,
            p99: number("p99")?,
        })
    }
}

/// Opens tunnels by all `doors` in turn, with `workers` threads for `time`, each for one round trip.
fn hammer(doors: &[Door], workers: usize, time: Duration) -> Result<String> {
    let all = Mutex::new(Vec::new());
    let began = Instant::now();
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..workers)
            .map(|_| {
                scope.spawn(|| -> std::io::Result<()> {
                    let mut times = Vec::new();
                    for door in doors.iter().cycle() {
                        if began.elapsed() >= time {
                            break;
                        }
                        let start = Instant::now();
                        trip(&mut door.open()?)?;
                        times.push(start.elapsed());
                    }
                    if let Ok(mut all) = all.lock() {
                        all.extend(times);
                    }
                    Ok(())
                })
            })
            .collect();
        running.into_iter().try_for_each(|worker| {
            worker
                .join()
                .map_err(|_| Error::other("a worker panicked"))?
        })
    })?;
    let took = began.elapsed();
    let mut times = all.into_inner().map_err(|_| "a worker panicked")?;
    let count = times.len() as f64;
    let told = json!({
        "count": count,
        "perSecond": count / took.as_secs_f64(),
        "p50": percentile(&mut times, 50).as_secs_f64(),
        "p99": percentile(&mut times, 99).as_secs_f64(),
    });
    Ok(told.to_string())
}

/// `DOOR TARGET WORKERS SECONDS`, where the door is `proxy` (what `HTTP_PROXY` says), `named` or `direct`.
pub(crate) fn act(arguments: &[String]) -> Result<()> {
    let [door, target, workers, seconds] = arguments else {
        return Err("a client has four arguments".into());
    };
    let doors = match door.as_str() {
        "named" => (0..ALIASES)
            .map(|at| resolve(&target.replace(NAME, &alias(at))).map(Door::Direct))
            .collect::<Result<Vec<_>>>()?,
        "direct" => vec![Door::Direct(resolve(target)?)],
        _ => vec![of_environment(target)?],
    };
    let time = Duration::from_secs(seconds.parse()?);
    // Some start what listens there beside the program, not before it.
    let began = Instant::now();
    while doors.iter().any(|door| door.open().is_err()) && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("{}", hammer(&doors, workers.parse()?, time)?);
    Ok(())
}

fn resolve(target: &str) -> Result<SocketAddr> {
    let found = target.to_socket_addrs()?.find(SocketAddr::is_ipv4);
    Ok(found.ok_or("it does not resolve")?)
}

fn of_environment(target: &str) -> Result<Door> {
    let proxy = std::env::var("HTTP_PROXY").map_err(|_| "no HTTP_PROXY")?;
    let rest = proxy.trim_start_matches("http://").trim_end_matches('/');
    let (password, at) = match rest.rsplit_once('@') {
        Some((user, at)) => (Some(basic(user)), at),
        None => (None, rest),
    };
    Ok(Door::Proxy {
        at: resolve(at)?,
        target: target.to_owned(),
        password,
    })
}

/// What `Proxy-Authorization` says for `user:password`.
pub(crate) fn basic(user: &str) -> String {
    let coded = base64::engine::general_purpose::STANDARD.encode(user);
    format!("Basic {coded}")
}
