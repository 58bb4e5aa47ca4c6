//! Certificates that are replaced while the server runs: new clients see the new ones after SIGHUP, those
//! that are connected stay, and broken files change nothing.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::{Cache, Engine};

/// Write a root certificate to a folder, and the certificates that it signed for a server and a client.
fn write_certificates(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    let mut root = CertificateParams::new(vec![]).unwrap();
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root_key = KeyPair::generate().unwrap();
    let write = |name: &str, text: String| std::fs::write(folder.join(name), text).unwrap();
    write("root.pem", root.self_signed(&root_key).unwrap().pem());
    let issuer = Issuer::new(root, root_key);
    for name in ["server", "client"] {
        let key = KeyPair::generate().unwrap();
        let subject = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        write(&format!("{name}.pem"), subject.signed_by(&key, &issuer).unwrap().pem());
        write(&format!("{name}-key.pem"), key.serialize_pem());
    }
}

/// A client past its negotiation, over TLS.
type Client = StreamOwned<ClientConnection, TcpStream>;

/// Connects with the certificates of a folder: fails unless its root signed the server's.
fn connect(port: u16, folder: &Path) -> io::Result<Client> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting)?;
    stream.write_all(&[0, 0, 0, 3])?;
    stream.write_all(b"IHAVEOPT\0\0\0\x05\0\0\0\0")?;
    let mut reply = [0; 20];
    stream.read_exact(&mut reply)?;
    assert_eq!(reply[12..16], [0, 0, 0, 1], "the server starts TLS");
    let certificate = |name: &str| CertificateDer::from_pem_file(folder.join(name)).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate("root.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.join("client-key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let configuration = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate("client.pem")], key)
        .unwrap();
    let name = "localhost".try_into().unwrap();
    let connection = ClientConnection::new(Arc::new(configuration), name).unwrap();
    let mut client = StreamOwned::new(connection, stream);
    client.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\0")?;
    let mut export = [0; 10];
    client.read_exact(&mut export)?;
    assert_eq!(export[..8], (16_u64 << 20).to_be_bytes(), "the size of the export");
    Ok(client)
}

/// Reads the first page.
fn read(client: &mut Client) -> io::Result<Vec<u8>> {
    let mut request = vec![0x25, 0x60, 0x95, 0x13, 0, 0, 0, 0];
    request.extend_from_slice(&7_u64.to_be_bytes());
    request.extend_from_slice(&0_u64.to_be_bytes());
    request.extend_from_slice(&4096_u32.to_be_bytes());
    client.write_all(&request)?;
    let mut reply = [0; 16];
    client.read_exact(&mut reply)?;
    assert_eq!(reply[4..], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7], "no error, the same cookie");
    let mut bytes = vec![0; 4096];
    client.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn port(engine: &Engine) -> u16 {
    let log = engine.log();
    let port = log.split("port=").nth(1).and_then(|rest| rest.split_whitespace().next());
    port.and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("no port:\n{log}"))
}

#[test]
fn replaced_certificates_are_for_new_clients_and_broken_ones_change_nothing() {
    let mut cache = Cache::new(16);
    let [old, new, used] = ["old", "new", "used"].map(|name| cache.path(name));
    for folder in [&old, &new, &used] {
        write_certificates(folder);
    }
    let place = |folder: &Path| {
        for name in ["root.pem", "server.pem", "server-key.pem"] {
            std::fs::copy(folder.join(name), used.join(name)).unwrap();
        }
    };
    place(&old);
    cache.set("nbd.listen", "127.0.0.1:0");
    let tls = toml::toml! {
        certificate = "used/server.pem"
        key = "used/server-key.pem"
        client_roots = "used/root.pem"
    };
    cache.set("nbd.tls", tls);
    let engine = cache.start();
    let port = port(&engine);
    let mut early = connect(port, &old).unwrap();
    assert!(connect(port, &new).is_err(), "its root signed nothing here");
    // A file that is no certificate: the old ones stay, and the log names the file.
    std::fs::write(used.join("server.pem"), "-----BEGIN CERTIFICATE-----\nbroken").unwrap();
    assert!(!engine.reload(&cache), "{}", engine.log());
    let log = engine.log();
    let complaint = log.lines().find(|line| line.contains("kept the old configuration"));
    assert!(complaint.is_some_and(|line| line.contains("server.pem")), "{log}");
    read(&mut connect(port, &old).unwrap()).unwrap();
    read(&mut early).unwrap();
    // The key of another certificate.
    place(&new);
    std::fs::copy(old.join("server-key.pem"), used.join("server-key.pem")).unwrap();
    assert!(!engine.reload(&cache), "{}", engine.log());
    read(&mut connect(port, &old).unwrap()).unwrap();
    place(&new);
    assert!(engine.reload(&cache), "{}", engine.log());
    // Clients that come before the server takes the certificates over still get the old ones.
    let mut late = engine.wait_for("the new certificates", || connect(port, &new).ok());
    assert!(connect(port, &old).is_err(), "the old ones are gone");
    for client in [&mut early, &mut late] {
        assert_eq!(read(client).unwrap(), [0; 4096]);
    }
    drop((early, late));
    engine.stop();
}
