//! Other proxies, and the web server that everybody is asked to reach. `cargo xtask bench egress` installs
//! them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::Result;
use crate::client::{Door, basic};
use crate::proc::{Process, command};
use crate::subject::{Kind, Subject};

const SRT: &str = "node_modules/@anthropic-ai/sandbox-runtime/dist/index.js";
const MITMPROXY: &str = "mitm/bin/mitmdump";

/// Where those are that no distribution has.
fn installed(what: &str) -> Result<PathBuf> {
    let folder = std::env::var_os("NAMZU_BENCH_PEERS")
        .ok_or("NAMZU_BENCH_PEERS is not set: run `cargo xtask bench egress`")?;
    Ok(Path::new(&folder).join(what))
}

/// A port that nobody listens on. Somebody could be faster, which the next start would tell.
fn free_port() -> Result<u16> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    Ok(listener.local_addr()?.port())
}

fn subject(kind: Kind, process: Process, port: u16, password: Option<String>) -> Subject {
    Subject {
        kind,
        port,
        password,
        process: Some(process),
    }
}

/// A server of a small page, in the clear and over TLS; nothing but that.
pub(crate) struct Web {
    pub(crate) http: u16,
    pub(crate) https: u16,
    _process: Process,
}

/// Starts nginx, with a certificate and its key of these files.
pub(crate) fn nginx(folder: &Path, certificate: &Path, key: &Path) -> Result<Web> {
    let (http, https) = (free_port()?, free_port()?);
    let page = "x".repeat(1024);
    let (certificate, key) = (certificate.display(), key.display());
    let at = folder.display();
    let file = folder.join("nginx.conf");
    fs::write(
        &file,
        format!(
            "daemon off;\nmaster_process off;\npid {at}/nginx.pid;\nerror_log {at}/nginx.log crit;\n\
             events {{ worker_connections 8192; }}\n\
             http {{\n access_log off;\n keepalive_requests 1000000000;\n keepalive_timeout 600;\n\
             client_body_temp_path {at}/b; proxy_temp_path {at}/p; fastcgi_temp_path {at}/f;\n\
             uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;\n\
             server {{\n listen 127.0.0.1:{http};\n listen 127.0.0.1:{https} ssl;\n\
             ssl_certificate {certificate};\n ssl_certificate_key {key};\n\
             location / {{ default_type text/plain; return 200 \"{page}\"; }}\n }}\n}}\n"
        ),
    )?;
    let mut command = command("nginx");
    command.arg("-c").arg(&file);
    let process = Process::start(&mut command)?
        .listening(http)?
        .listening(https)?;
    Ok(Web {
        http,
        https,
        _process: process,
    })
}

/// Lets everything through to the loopback, keeps nothing, writes no log.
pub(crate) fn squid(folder: &Path) -> Result<Subject> {
    let port = free_port()?;
    let file = folder.join("squid.conf");
    fs::write(
        &file,
        format!(
            "http_port 127.0.0.1:{port}\nacl here dst 127.0.0.1/32\nhttp_access allow here\n\
             http_access deny all\ncache deny all\ncache_mem 0 MB\naccess_log none\n\
             cache_log /dev/null\ncache_store_log none\npid_filename none\n\
             coredump_dir /tmp\nshutdown_lifetime 0 seconds\nmax_filedescriptors 65536\n"
        ),
    )?;
    let mut command = command("squid");
    command.arg("-N").arg("-f").arg(&file);
    let process = Process::start(&mut command)?.listening(port)?;
    Ok(subject(Kind::Squid, process, port, None))
}

/// Lets everything through to everybody.
pub(crate) fn tinyproxy(folder: &Path) -> Result<Subject> {
    let port = free_port()?;
    let file = folder.join("tinyproxy.conf");
    fs::write(
        &file,
        format!(
            "Port {port}\nListen 127.0.0.1\nMaxClients 4000\nTimeout 600\nLogLevel Critical\n\
             LogFile \"/dev/null\"\n"
        ),
    )?;
    let mut command = command("tinyproxy");
    command.arg("-d").arg("-c").arg(&file);
    let process = Process::start(&mut command)?.listening(port)?;
    Ok(subject(Kind::Tinyproxy, process, port, None))
}

/// `@anthropic-ai/sandbox-runtime`, which ends TLS where it is given whom to trust.
pub(crate) fn srt(folder: &Path, roots: Option<&Path>) -> Result<Subject> {
    let script = folder.join("srt.mjs");
    fs::write(&script, include_str!("srt.mjs"))?;
    let mut network = json!({"allowedDomains": ["127.0.0.1", "localhost"], "deniedDomains": []});
    let mut command = command("node");
    if let Some(roots) = roots {
        network["tlsTerminate"] = json!({});
        command.env("NODE_EXTRA_CA_CERTS", roots);
    }
    let files = json!({"denyRead": [], "allowWrite": [], "denyWrite": []});
    let settings = json!({"network": network, "filesystem": files}).to_string();
    command.arg(&script).arg(installed(SRT)?).arg(&settings);
    // Its own look-up of another proxy.
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
        command.env_remove(name);
    }
    let mut process = Process::start(&mut command)?;
    let told: serde_json::Value = serde_json::from_str(&process.line()?)?;
    let port = told["port"].as_u64().and_then(|port| port.try_into().ok());
    let port = port.ok_or("srt names no port")?;
    let password = told["token"].as_str();
    let password = password.map(|token| basic(&format!("srt:{token}")));
    Ok(subject(Kind::Srt, process, port, password))
}

/// mitmproxy, which ends TLS or lets everything pass unseen.
pub(crate) fn mitmproxy(folder: &Path, ends_tls: bool) -> Result<Subject> {
    let port = free_port()?;
    let at = folder.join("mitmproxy");
    fs::create_dir_all(&at)?;
    let mut command = command(installed(MITMPROXY)?);
    command
        .args(["--quiet", "--set", "ssl_insecure=true", "--set"])
        .arg(format!("confdir={}", at.display()))
        .args(["--mode", &format!("regular@127.0.0.1:{port}")]);
    if !ends_tls {
        command.args(["--ignore-hosts", ".*"]);
    }
    let process = Process::start(&mut command)?.listening(port)?;
    Ok(subject(Kind::Mitmproxy, process, port, None))
}

impl Subject {
    /// The way through it to a port of the server.
    pub(crate) fn door(&self, port: u16) -> Door {
        let to = |port: u16| (std::net::Ipv4Addr::LOCALHOST, port).into();
        match self.kind {
            Kind::Direct => Door::Direct(to(port)),
            _ => Door::Proxy {
                at: to(self.port),
                target: format!("{}:{port}", self.kind.host()),
                password: self.password.clone(),
            },
        }
    }
}
