//! Addresses of NBD exports: `nbd://host:port/name` and `nbd+unix:///name?socket=path`, and with TLS `nbds`
//! and `nbds+unix`.
//!
//! Source: "The NBD Uniform Resource Indicator (URI) format", `doc/uri.md` of the `NetworkBlockDevice`
//! project; of its schemes those for TCP and Unix sockets. TLS is by certificates, whose folder the parameter
//! `tls-certificates` of libnbd names.

use std::fmt;
use std::path::PathBuf;

use crate::protocol::STRING_BYTES_MAX;

/// The port that NBD has from IANA.
pub const DEFAULT_PORT: u16 = 10_809;

/// Address of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NbdUri {
    /// Address of its server.
    pub server: ServerAddress,
    /// The export's name; empty for the default one.
    pub export: String,
    /// Files for TLS; `None` to connect without it.
    pub tls: Option<TlsFiles>,
}

/// Files that a client needs for TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// A folder, as libnbd and `GnuTLS` clients have it: `ca-cert.pem` with the roots that the server's
    /// certificate must lead to, and `client-cert.pem` and `client-key.pem` if the server wants to know its
    /// clients.
    pub certificates: PathBuf,
    /// The name that the server's certificate must have.
    pub server_name: String,
}

/// Address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerAddress {
    /// A host, by name or number, and a port.
    Tcp {
        /// The host; an IPv6 number without its brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

/// Reason why a text is not an address of an export.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}`: {reason}; write nbd://HOST:PORT/EXPORT, nbd+unix:///EXPORT?socket=PATH, or with TLS \
     nbds://HOST:PORT/EXPORT?tls-certificates=FOLDER"
)]
pub struct UriError {
    /// The text.
    pub text: String,
    /// Fault.
    pub reason: &'static str,
}

impl std::str::FromStr for NbdUri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        parse(text).map_err(|reason| UriError { text: text.to_owned(), reason })
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

fn parse(text: &str) -> Result<NbdUri, &'static str> {
    let (scheme, rest) = text.split_once("://").ok_or("it has no scheme")?;
    let (is_unix, has_tls) = match scheme {
        "nbd" => (false, false),
        "nbd+unix" => (true, false),
        "nbds" => (false, true),
        "nbds+unix" => (true, true),
        _ => return Err("the scheme is none of nbd, nbds, nbd+unix and nbds+unix"),
    };
    let rest = rest.split('#').next().unwrap_or_default();
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let export = decode(path)?;
    if export.len() > STRING_BYTES_MAX {
        return Err("the export's name is longer than 4096 bytes");
    }
    let parameter = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find_map(|(key, value)| (key == name).then_some(value))
    };
    let server = match (is_unix, parameter("socket")) {
        (true, Some(socket)) if authority.is_empty() && !socket.is_empty() => {
            ServerAddress::Unix(decode(socket)?.into())
        }
        (true, Some(_)) if !authority.is_empty() => return Err("a Unix socket has no host"),
        (true, _) => return Err("it names no socket"),
        (false, Some(_)) => return Err("a socket's path needs the scheme nbd+unix"),
        (false, None) => tcp(authority)?,
    };
    let tls = tls(&server, has_tls, parameter("tls-certificates"), parameter("tls-hostname"))?;
    Ok(NbdUri { server, export, tls })
}

/// Return the files for TLS; for a Unix socket the certificate is that of this machine.
fn tls(
    server: &ServerAddress,
    has_tls: bool,
    folder: Option<&str>,
    name: Option<&str>,
) -> Result<Option<TlsFiles>, &'static str> {
    if !has_tls {
        let is_plain = folder.is_none() && name.is_none();
        return is_plain.then_some(None).ok_or("certificates need the scheme nbds or nbds+unix");
    }
    let folder = folder.filter(|folder| !folder.is_empty());
    let folder = folder.ok_or("TLS needs tls-certificates=FOLDER, with ca-cert.pem in it")?;
    let server_name = match (name, server) {
        (Some(name), _) => decode(name)?,
        (None, ServerAddress::Tcp { host, .. }) => host.clone(),
        (None, ServerAddress::Unix(_)) => "localhost".to_owned(),
    };
    Ok(Some(TlsFiles { certificates: decode(folder)?.into(), server_name }))
}

fn tcp(authority: &str) -> Result<ServerAddress, &'static str> {
    if authority.contains('@') {
        return Err("NBD knows no users");
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or("a bracket is not closed")?;
            (host, port.strip_prefix(':').or(port.is_empty().then_some("")))
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, Some("")),
        },
    };
    let port = match port {
        Some("") => DEFAULT_PORT,
        Some(port) => port.parse().map_err(|_| "the port is not a number from 0 to 65535")?,
        None => return Err("something stands behind the bracket"),
    };
    if host.is_empty() {
        return Err("it names no host");
    }
    Ok(ServerAddress::Tcp { host: decode(host)?, port })
}

/// Text without its percent signs.
fn decode(text: &str) -> Result<String, &'static str> {
    let malformed = "a percent sign is not followed by two hexadecimal digits";
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, behind) = rest.split_at_checked(2).ok_or(malformed)?;
        let digits = str::from_utf8(digits).map_err(|_| malformed)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(malformed);
        }
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| malformed)?);
        rest = behind;
    }
    if bytes.contains(&0) {
        return Err("it has a NUL character");
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_understood() {
        let tcp = |host: &str, port| ServerAddress::Tcp { host: host.into(), port };
        let unix = |path: &str| ServerAddress::Unix(path.into());
        for (text, server, export) in [
            ("nbd://localhost", tcp("localhost", 10_809), ""),
            ("nbd://localhost/", tcp("localhost", 10_809), ""),
            ("nbd://10.0.0.1:99/disk", tcp("10.0.0.1", 99), "disk"),
            ("nbd://[::1]:99/a/b", tcp("::1", 99), "a/b"),
            ("nbd://[::1]/a", tcp("::1", 10_809), "a"),
            ("nbd://h//a", tcp("h", 10_809), "/a"),
            ("nbd+unix:///?socket=/run/d.sock", unix("/run/d.sock"), ""),
            ("nbd+unix:///a%20b?socket=d.sock", unix("d.sock"), "a b"),
            ("nbd+unix:///a?x=y&socket=/d%25#fragment", unix("/d%"), "a"),
        ] {
            let uri = NbdUri { server, export: export.into(), tls: None };
            assert_eq!(text.parse(), Ok(uri), "{text}");
        }
    }

    #[test]
    fn tls_has_certificates_and_a_name() {
        for (text, folder, name) in [
            ("nbds://disks.example/a?tls-certificates=/etc/pki", "/etc/pki", "disks.example"),
            ("nbds://[::1]/?tls-certificates=a%20b&tls-hostname=disks", "a b", "disks"),
            ("nbds+unix:///a?socket=d&tls-certificates=pki", "pki", "localhost"),
        ] {
            let tls = text.parse::<NbdUri>().expect(text).tls;
            let files = TlsFiles { certificates: folder.into(), server_name: name.into() };
            assert_eq!(tls, Some(files), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "disk.img",
            "http://localhost/",
            "nbds://localhost/",
            "nbds://localhost/?tls-certificates=",
            "nbds+unix:///?socket=a",
            "nbd://localhost/?tls-certificates=pki",
            "nbd+unix:///?socket=a&tls-hostname=b",
            "nbd:///name",
            "nbd://host:port/",
            "nbd://host:65536/",
            "nbd://user@host/",
            "nbd://[::1/a",
            "nbd://[::1]x/a",
            "nbd://host/%4",
            "nbd://host/%+1",
            "nbd://host/%00",
            "nbd://host/%ff",
            "nbd://host/?socket=a",
            "nbd+unix:///name",
            "nbd+unix:///?socket=",
            "nbd+unix://host/?socket=a",
        ] {
            let error = text.parse::<NbdUri>().expect_err(text).to_string();
            assert!(error.contains("nbd://HOST:PORT/EXPORT"), "{error}");
        }
    }
}
