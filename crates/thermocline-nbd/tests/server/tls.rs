//! TLS and client certificates, with certificates made on the spot.

use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use thermocline_nbd::codec::server::TlsMode;
use thermocline_nbd::server::Settings;
use thermocline_nbd::server::tls::{Certificates, TlsError};

use super::Running;
use super::certificates::write_certificates;
use super::foreign_clients::run;
use super::memory::Memory;

fn certificates(folder: &Path) -> Certificates {
    Certificates {
        certificate: folder.join("server-cert.pem"),
        key: folder.join("server-key.pem"),
        client_roots: Some(folder.join("ca-cert.pem")),
    }
}

fn start(folder: &Path) -> Running {
    let configuration = certificates(folder).load().unwrap();
    let tls = Some((configuration, TlsMode::Required));
    let settings = Settings { tls, ..Settings::default() };
    Running::start_many(vec![("", Memory::new(4 << 20))], settings, true)
}

#[test]
fn only_clients_with_a_certificate_come_in() {
    let folder = tempfile::tempdir().unwrap();
    write_certificates(folder.path());
    let running = start(folder.path());
    let address = running.address.unwrap();
    let path = folder.path().display();
    let uri = format!("nbds://{address}/?tls-certificates={path}");
    let Some(said) = run("nbdinfo", &[&uri]) else { return };
    assert!(said.contains("newstyle-fixed with TLS"), "{said}");
    // Data through TLS, in requests of every size.
    let source = folder.path().join("source").display().to_string();
    let copy = folder.path().join("copy").display().to_string();
    let bytes: Vec<u8> = (0..4_u32 << 20).map(|place| (place >> 5).to_le_bytes()[0]).collect();
    std::fs::write(&source, &bytes).unwrap();
    run("nbdcopy", &[&source, &uri]);
    run("nbdcopy", &[&uri, &copy]);
    assert!(std::fs::read(&copy).unwrap() == bytes);
    // No TLS, and TLS without a certificate.
    for uri in [format!("nbd://{address}"), format!("nbds://{address}/?tls-certificates=/dev/null")]
    {
        let refused = std::process::Command::new("nbdinfo").arg(&uri).output().unwrap();
        assert!(!refused.status.success(), "{uri}");
    }
    // On a Unix socket, where nobody listens in, it is left to the client.
    assert!(running.client().read(0, 1).is_ok());
}

#[test]
fn a_client_of_our_own_makes_the_handshake() {
    let folder = tempfile::tempdir().unwrap();
    write_certificates(folder.path());
    let running = start(folder.path());
    let uncertified = handshake(&running, folder.path(), false);
    assert!(uncertified.is_err(), "a client without a certificate came in");
    handshake(&running, folder.path(), true).unwrap();
}

#[test]
fn new_clients_get_the_certificates_that_replaced_others() {
    let [old, new] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    write_certificates(old.path());
    write_certificates(new.path());
    let running = start(old.path());
    handshake(&running, old.path(), true).unwrap();
    assert!(handshake(&running, new.path(), true).is_err(), "its root signed nothing here");
    running.handle.set_tls(certificates(new.path()).load().unwrap());
    // Clients that come before the server takes the certificates over still get the old ones.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while handshake(&running, new.path(), true).is_err() {
        assert!(std::time::Instant::now() < deadline, "the certificates stay as they were");
    }
    assert!(handshake(&running, old.path(), true).is_err(), "the old ones are gone");
}

/// STARTTLS, then ABORT through TLS; fails if the server does not answer it.
fn handshake(running: &Running, folder: &Path, has_certificate: bool) -> std::io::Result<()> {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use std::io::{Read as _, Write as _};

    let mut stream = TcpStream::connect(running.address.unwrap())?;
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting)?;
    stream.write_all(&[0, 0, 0, 3])?;
    stream.write_all(b"IHAVEOPT\0\0\0\x05\0\0\0\0")?;
    let mut reply = [0; 20];
    stream.read_exact(&mut reply)?;
    assert_eq!(reply[12..16], [0, 0, 0, 1]);
    let certificate = |name| CertificateDer::from_pem_file(folder.join(name)).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate("ca-cert.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let configuration = if has_certificate {
        let key = PrivateKeyDer::from_pem_file(folder.join("client-key.pem")).unwrap();
        builder.with_client_auth_cert(vec![certificate("client-cert.pem")], key).unwrap()
    } else {
        builder.with_no_client_auth()
    };
    let name = "localhost".try_into().unwrap();
    let connection = rustls::ClientConnection::new(Arc::new(configuration), name).unwrap();
    let mut secret = rustls::StreamOwned::new(connection, stream);
    secret.write_all(b"IHAVEOPT\0\0\0\x02\0\0\0\0")?;
    secret.read_exact(&mut reply)?;
    assert_eq!(reply[8..16], [0, 0, 0, 2, 0, 0, 0, 1]);
    let mut rest = vec![];
    secret.read_to_end(&mut rest).map(|_| assert!(rest.is_empty()))
}

#[test]
fn what_comes_unencrypted_behind_starttls_is_refused() {
    use std::io::{Read as _, Write as _};
    let folder = tempfile::tempdir().unwrap();
    write_certificates(folder.path());
    let running = start(folder.path());
    let mut stream = TcpStream::connect(running.address.unwrap()).unwrap();
    let start = b"\0\0\0\x03IHAVEOPT\0\0\0\x05\0\0\0\0IHAVEOPT\0\0\0\x07\0\0\0\x06\0\0\0\0\0\0";
    stream.write_all(start).unwrap();
    let mut answer = vec![];
    // A reset and an end are both a refusal.
    drop(stream.read_to_end(&mut answer));
    assert!(answer.len() <= 18 + 20, "the server went on");
}

#[test]
fn certificates_that_cannot_be_used_are_named() {
    let folder = tempfile::tempdir().unwrap();
    write_certificates(folder.path());
    let good = certificates(folder.path());
    let missing = Certificates { key: folder.path().join("nothing"), ..good.clone() };
    let error = missing.load().unwrap_err();
    assert!(error.to_string().contains("nothing"), "{error}");
    let foreign = Certificates { key: folder.path().join("client-key.pem"), ..good.clone() };
    assert!(matches!(foreign.load(), Err(TlsError::Certificate { .. })));
    let empty = Certificates { certificate: good.key.clone(), ..good };
    assert!(matches!(empty.load(), Err(TlsError::Pem { .. })));
}
