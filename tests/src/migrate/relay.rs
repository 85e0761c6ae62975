//! A wire between Vetch and the etcd that can be cut.

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub(super) struct Relay {
    port: u16,
    is_open: watch::Sender<bool>,
}

impl Relay {
    /// Passes connections on to `target`, an address.
    pub(super) async fn start(target: &str) -> Result<Relay> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let is_open = watch::Sender::new(true);
        let (target, gate) = (target.to_owned(), is_open.subscribe());
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                if let Ok(far) = TcpStream::connect(&target).await {
                    let (near, far) = (near.into_split(), far.into_split());
                    tokio::spawn(pass(near.0, far.1, gate.clone()));
                    tokio::spawn(pass(far.0, near.1, gate.clone()));
                }
            }
        });
        Ok(Relay { port, is_open })
    }

    pub(super) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Bytes wait in between until the wire is whole again.
    pub(super) fn cut(&self) {
        self.is_open.send_replace(false);
    }

    pub(super) fn mend(&self) {
        self.is_open.send_replace(true);
    }
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut gate: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read) = from.read(&mut buffer).await {
        let is_over = read == 0 || gate.wait_for(|is_open| *is_open).await.is_err();
        if is_over || to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
