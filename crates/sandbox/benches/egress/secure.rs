//! Requests inside TLS that the proxy ends.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::Result;
use crate::client::Door;
use crate::measure::{Row, human};
use crate::peers::{mitmproxy, srt};
use crate::sample::{micros, middle, percentile, whole};
use crate::subject::{Ground, Kind, Subject};

const ROUNDS: usize = 3;
const TIME: Duration = Duration::from_secs(3);
/// A request that takes as long was forgotten.
const PATIENCE: Duration = Duration::from_secs(20);
/// What a delayed acknowledgement costs where somebody waits for one.
const STALL: Duration = Duration::from_millis(40);

/// How requests come.
#[derive(Clone, Copy)]
struct Load {
    connections: usize,
    /// Each on a connection of its own.
    fresh: bool,
}

/// Several rounds of one.
struct Served {
    kind: Kind,
    each_second: Vec<f64>,
    times: Vec<Duration>,
    cpu: Duration,
}

pub(crate) fn rows(ground: &Ground) -> Result<Vec<Row>> {
    let subjects = [
        Subject::direct(),
        Subject::ours(&ground.served())?,
        srt(ground.folder(), Some(ground.roots()))?,
        mitmproxy(ground.folder(), true)?,
    ];
    let client = Client::new()?;
    let all = |connections, fresh| {
        let load = Load { connections, fresh };
        measure(&subjects, ground.web.https, &client, load)
    };
    let (stay, fresh, alone) = (all(16, false)?, all(8, true)?, all(1, true)?);
    let over = |all: &[Served], kind: Kind| rate(all, Kind::Ours) / rate(all, kind);
    let (stay_srt, fresh_srt) = (over(&stay, Kind::Srt), over(&fresh, Kind::Srt));
    let (stay_mitm, fresh_mitm) = (over(&stay, Kind::Mitmproxy), over(&fresh, Kind::Mitmproxy));
    let p99 = latency(&alone, Kind::Ours, 99);
    Ok(vec![
        Row {
            figure: "intercepted TLS, 16 connections that stay",
            ours: told(&stay, Kind::Ours),
            peer: peers(&stay),
            ratio: format!("{stay_srt:.1} × srt, {stay_mitm:.0} × mitmproxy"),
            bound: "≥ 5 × srt",
            met: stay_srt >= 5.0,
        },
        Row {
            figure: "intercepted TLS, new connections, 8 at once",
            ours: told(&fresh, Kind::Ours),
            peer: peers(&fresh),
            ratio: format!("{fresh_srt:.1} × srt, {fresh_mitm:.1} × mitmproxy"),
            bound: "≥ 4 × the better",
            met: fresh_srt.min(fresh_mitm) >= 4.0,
        },
        Row {
            figure: "intercepted TLS, new connections, one at a time",
            ours: told(&alone, Kind::Ours),
            peer: peers(&alone),
            ratio: format!("p99 {}", human(p99)),
            bound: "no stall of 40 ms",
            met: p99 < STALL,
        },
    ])
}

fn of(all: &[Served], kind: Kind) -> Option<&Served> {
    all.iter().find(|served| served.kind == kind)
}

fn rate(all: &[Served], kind: Kind) -> f64 {
    of(all, kind).map_or(0.0, |served| middle(&served.each_second))
}

fn latency(all: &[Served], kind: Kind, percent: usize) -> Duration {
    of(all, kind).map_or(Duration::ZERO, |served| {
        percentile(&mut served.times.clone(), percent)
    })
}

fn told(all: &[Served], kind: Kind) -> String {
    let cost = of(all, kind).map_or(0.0, |s| micros(s.cpu) / s.times.len() as f64);
    format!(
        "{}/s ({cost:.0} µs CPU; p50 {}, p99 {})",
        whole(rate(all, kind)),
        human(latency(all, kind, 50)),
        human(latency(all, kind, 99))
    )
}

fn peers(all: &[Served]) -> String {
    let peers = [Kind::Srt, Kind::Mitmproxy].map(|kind| {
        let name = kind.name();
        format!("{name} {}", told(all, kind))
    });
    format!(
        "direct {}/s; {}",
        whole(rate(all, Kind::Direct)),
        peers.join("; ")
    )
}

fn measure(subjects: &[Subject], port: u16, client: &Client, load: Load) -> Result<Vec<Served>> {
    let mut all = Vec::new();
    for subject in subjects {
        all.push(Served {
            kind: subject.kind,
            each_second: Vec::new(),
            times: Vec::new(),
            cpu: Duration::ZERO,
        });
    }
    let runtime = crate::runtime()?;
    for round in 0..=ROUNDS {
        for (subject, served) in subjects.iter().zip(&mut all) {
            let (before, began) = (subject.cpu(), Instant::now());
            let time = if round == 0 { TIME / 6 } else { TIME };
            let times = runtime.block_on(client.load(&subject.door(port), time, load))?;
            if round == 0 {
                // Certificates are made and code is compiled in it.
                continue;
            }
            let took = began.elapsed().as_secs_f64();
            served.each_second.push(times.len() as f64 / took);
            served.cpu += subject.cpu() - before;
            served.times.extend(times);
        }
    }
    Ok(all)
}

/// A program that asks for pages over TLS.
#[derive(Clone)]
struct Client {
    connector: TlsConnector,
}

impl Client {
    fn new() -> Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
            .with_no_client_auth();
        // Every handshake is a whole one.
        config.resumption = Resumption::disabled();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
        })
    }

    /// How long each request took.
    async fn load(&self, door: &Door, time: Duration, load: Load) -> Result<Vec<Duration>> {
        let until = Instant::now() + time;
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..load.connections {
            let (client, door) = (self.clone(), door.clone());
            tasks.spawn(async move { client.ask(&door, until, load.fresh).await });
        }
        let mut times = Vec::new();
        while let Some(done) = tasks.join_next().await {
            times.extend(done??);
        }
        Ok(times)
    }

    async fn ask(&self, door: &Door, until: Instant, fresh: bool) -> Result<Vec<Duration>> {
        let mut times = Vec::new();
        let mut open = None;
        while Instant::now() < until {
            let began = Instant::now();
            let asked = async {
                let mut stream = match open.take() {
                    Some(stream) => stream,
                    None => self.open(door).await?,
                };
                page(&mut stream, door).await?;
                Result::<_>::Ok(stream)
            };
            let stream = timeout(PATIENCE, asked).await??;
            // The first of a connection that stays is none of what is measured.
            times.push(began.elapsed());
            if fresh {
                drop(stream);
            } else {
                open = Some(stream);
            }
        }
        Ok(times)
    }

    async fn open(&self, door: &Door) -> Result<TlsStream<TcpStream>> {
        let (at, host) = reached(door);
        let mut stream = TcpStream::connect(at).await?;
        stream.set_nodelay(true)?;
        let head = door.head();
        if !head.is_empty() {
            stream.write_all(head.as_bytes()).await?;
            let mut answer = Vec::new();
            while !answer.ends_with(b"\r\n\r\n") {
                if stream.read_buf(&mut answer).await? == 0 {
                    return Err("the proxy ended".into());
                }
            }
            if answer.get(8..12) != Some(b" 200") {
                return Err(String::from_utf8_lossy(&answer).into_owned().into());
            }
        }
        let name = ServerName::try_from(host.to_owned())?;
        Ok(self.connector.connect(name, stream).await?)
    }
}

/// Where to connect, and what the server is called.
fn reached(door: &Door) -> (SocketAddr, &str) {
    match door {
        Door::Direct(at) => (*at, "127.0.0.1"),
        Door::Proxy { at, target, .. } => {
            let host = target.rsplit_once(':').map_or("", |(host, _)| host);
            (*at, host)
        }
    }
}

async fn page(stream: &mut TlsStream<TcpStream>, door: &Door) -> Result<()> {
    let host = match door {
        Door::Direct(at) => format!("{}:{}", Ipv4Addr::LOCALHOST, at.port()),
        Door::Proxy { target, .. } => target.clone(),
    };
    let request = format!("GET /page HTTP/1.1\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut answer = Vec::with_capacity(4096);
    loop {
        if stream.read_buf(&mut answer).await? == 0 {
            return Err(String::from_utf8_lossy(&answer).into_owned().into());
        }
        if !answer.starts_with(b"HTTP/1.1 200") {
            return Err(String::from_utf8_lossy(&answer).into_owned().into());
        }
        let head = answer.windows(4).position(|end| end == b"\r\n\r\n");
        // A body of 1,024 bytes, in chunks where a proxy makes some.
        let Some(head) = head else { continue };
        let body = answer.len() - head - 4;
        if body == 1024 || (body > 1024 && answer.ends_with(b"\r\n0\r\n\r\n")) {
            return Ok(());
        }
    }
}

/// Trusts anybody: what is measured is the proxy.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
