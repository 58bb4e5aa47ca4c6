//! TLS to the server: ours and `nbdkit`, with certificates made on the spot.

use std::path::Path;

use thermocline_engine::Options;
use thermocline_nbd::backing::{Access, NbdBacking};
use thermocline_nbd::codec::server::TlsMode;
use thermocline_nbd::server::tls::{Certificates, ServerTls};
use thermocline_nbd::server::{Export, Listen, Server, Settings};
use thermocline_nbd::uri::{NbdUri, ServerAddress, TlsFiles};

use super::certificates::write_certificates;
use super::volatile::{Face, Running, disk};
use super::{BYTES, check_nbdkit, check_operations, check_volatile, of_ram, options};

/// Return the same address through TLS.
fn secure(uri: NbdUri, folder: &Path) -> NbdUri {
    let (certificates, server_name) = (folder.to_owned(), "localhost".to_owned());
    NbdUri { tls: Some(TlsFiles { certificates, server_name }), ..uri }
}

fn server_tls(folder: &Path) -> ServerTls {
    let certificates = Certificates {
        certificate: folder.join("server-cert.pem"),
        key: folder.join("server-key.pem"),
        client_roots: Some(folder.join("ca-cert.pem")),
    };
    certificates.load().unwrap()
}

#[test]
fn operations_go_through_tls() {
    let folder = tempfile::tempdir().unwrap();
    write_certificates(folder.path());
    let disk = disk(BYTES);
    let tls = Some(server_tls(folder.path()));
    let running = Running::start_with(&disk, folder.path(), Face::default(), tls);
    check_operations(secure(running.uri(), folder.path()), false);
}

#[test]
fn what_was_flushed_through_tls_survives_kills() {
    let folder = tempfile::tempdir().unwrap();
    write_certificates(folder.path());
    let disk = disk(BYTES);
    let tls = server_tls(folder.path());
    let start = || Running::start_with(&disk, folder.path(), Face::default(), Some(tls.clone()));
    let running = start();
    let engine = of_ram(options("lru", 0), secure(running.uri(), folder.path()));
    check_volatile(engine, 3, &disk, start, running);
}

#[test]
fn nbdkit_is_served_through_tls_and_killed() {
    let certificates = tempfile::tempdir().unwrap();
    write_certificates(certificates.path());
    let option = format!("--tls-certificates={}", certificates.path().display());
    let words = ["--tls=require", &option, "--tls-verify-peer"];
    let engine = |_: &Path, uri| -> thermocline_engine::Engine<_> {
        of_ram(Options { ..options("lru", 0) }, secure(uri, certificates.path()))
    };
    check_nbdkit(&words, 2, engine);
}

/// Return `true` if an error has these words, which the library writes as a sentence or as a name.
fn is_about(error: &str, words: &str) -> bool {
    let letters = |text: &str| text.replace(' ', "").to_lowercase();
    letters(error).contains(&letters(words))
}

/// Return the error of an attempt to connect.
fn refusal(uri: NbdUri) -> String {
    NbdBacking::connect(uri, Access::ReadWrite).map(drop).unwrap_err().to_string()
}

#[test]
fn servers_and_certificates_that_do_not_fit_are_refused_and_named() {
    let [folder, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    write_certificates(folder.path());
    write_certificates(other.path());
    let disk = disk(BYTES);
    let tls = Some(server_tls(folder.path()));
    let running = Running::start_with(&disk, folder.path(), Face::default(), tls);
    // A server that somebody else vouches for.
    std::fs::copy(folder.path().join("client-cert.pem"), other.path().join("client-cert.pem"))
        .unwrap();
    std::fs::copy(folder.path().join("client-key.pem"), other.path().join("client-key.pem"))
        .unwrap();
    let error = refusal(secure(running.uri(), other.path()));
    assert!(error.contains("invalid peer certificate"), "{error}");
    // Another server's certificate.
    let mut elsewhere = secure(running.uri(), folder.path());
    elsewhere.tls.as_mut().unwrap().server_name = "elsewhere.example".into();
    let error = refusal(elsewhere.clone());
    assert!(is_about(&error, "not valid for name"), "{error}");
    elsewhere.tls.as_mut().unwrap().server_name = "no name".into();
    let error = refusal(elsewhere);
    assert!(error.contains("`no name` is neither"), "{error}");
    // A client that cannot say who it is.
    std::fs::remove_file(folder.path().join("client-cert.pem")).unwrap();
    let error = refusal(secure(running.uri(), folder.path()));
    assert!(is_about(&error, "certificate required"), "{error}");
    std::fs::remove_file(folder.path().join("ca-cert.pem")).unwrap();
    let error = refusal(secure(running.uri(), folder.path()));
    assert!(error.contains("ca-cert.pem"), "{error}");
}

#[test]
fn plain_and_secure_ends_do_not_meet() {
    let folder = tempfile::tempdir().unwrap();
    write_certificates(folder.path());
    let disk = disk(BYTES);
    let running = Running::start(&disk, folder.path(), Face::default());
    let error = refusal(secure(running.uri(), folder.path()));
    assert!(error.contains("the server refuses TLS"), "{error}");
    // Over TCP, ours takes no plain clients.
    let settings = Settings {
        tls: Some((server_tls(folder.path()), TlsMode::Required)),
        ..Settings::default()
    };
    let exports: Vec<Export<thermocline_nbd::cached::Cached<_>>> = {
        let engine = thermocline_engine::Engine::in_memory(options("lru", 0)).unwrap();
        let service = thermocline_nbd::cached::Cached::new(engine);
        vec![Export { info: service.info("", ""), service }]
    };
    let mut server = Server::new(settings, exports).unwrap();
    let address = server.listen(Listen::Tcp("127.0.0.1:0".parse().unwrap())).unwrap().unwrap();
    let handle = server.handle();
    let thread = std::thread::spawn(move || server.run(|_| ()).unwrap());
    let uri = NbdUri {
        server: ServerAddress::Tcp { host: "127.0.0.1".into(), port: address.port() },
        export: String::new(),
        tls: None,
    };
    let error = refusal(uri.clone());
    assert!(error.contains("TLS required"), "{error}");
    NbdBacking::connect(secure(uri, folder.path()), Access::ReadWrite).unwrap();
    handle.stop();
    thread.join().unwrap();
}
