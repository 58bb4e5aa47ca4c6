//! Certificates that are made on the spot, for several tests.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// Writes what `GnuTLS` clients look for in a folder: a root, a server's and a client's certificate.
pub(crate) fn write_certificates(folder: &Path) {
    let mut root = CertificateParams::new(vec![]).unwrap();
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root_key = KeyPair::generate().unwrap();
    let certificate = root.self_signed(&root_key).unwrap();
    let write = |name: &str, text: String| std::fs::write(folder.join(name), text).unwrap();
    write("ca-cert.pem", certificate.pem());
    let issuer = Issuer::new(root, root_key);
    for (name, subject) in [("server", "localhost"), ("client", "client")] {
        let key = KeyPair::generate().unwrap();
        let subjects = vec![subject.to_owned(), "127.0.0.1".into()];
        let signed = CertificateParams::new(subjects).unwrap().signed_by(&key, &issuer).unwrap();
        write(&format!("{name}-cert.pem"), signed.pem());
        write(&format!("{name}-key.pem"), key.serialize_pem());
    }
}
