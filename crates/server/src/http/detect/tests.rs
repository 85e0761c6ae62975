use super::*;
use tokio::io::AsyncWriteExt;

async fn detected(chunks: &[&[u8]]) -> Option<(Protocol, Vec<u8>)> {
    let (mut client, server) = tokio::io::duplex(64);
    let sent: Vec<Vec<u8>> = chunks.iter().map(|c| c.to_vec()).collect();
    let sending = tokio::spawn(async move {
        for chunk in sent {
            client.write_all(&chunk).await.unwrap();
            client.flush().await.unwrap();
            tokio::task::yield_now().await;
        }
    });
    let (protocol, mut rest) = detect(server, BytesMut::new()).await.unwrap()?;
    let mut all = Vec::new();
    rest.read_to_end(&mut all).await.unwrap();
    sending.await.unwrap();
    Some((protocol, all))
}

#[tokio::test]
async fn tells_the_protocols_apart_and_loses_no_byte() {
    let get = b"GET /version HTTP/1.1\r\n\r\n";
    assert_eq!(detected(&[get]).await, Some((Protocol::Http1, get.to_vec())));
    // A method that begins like the preface does.
    let propfind = b"PROPFIND / HTTP/1.1\r\n\r\n";
    assert_eq!(detected(&[b"P", b"R", &propfind[2..]]).await, Some((Protocol::Http1, propfind.to_vec())));
    let mut preface = PREFACE.to_vec();
    preface.extend(b"frames");
    assert_eq!(detected(&[&preface[..3], &preface[3..]]).await, Some((Protocol::Http2, preface)));
}

#[tokio::test]
async fn a_peer_that_sends_too_little_is_given_up() {
    assert_eq!(detected(&[]).await, None);
    assert_eq!(detected(&[b"PRI * HTTP"]).await, None);
    assert_eq!(detected(&[&[0x16, 3, 1, 2, 0, 1]]).await, None, "TLS where none is spoken");
}

#[tokio::test]
async fn bytes_read_before_count() {
    let (_client, server) = tokio::io::duplex(64);
    let (protocol, mut rest) = detect(server, BytesMut::from("GET")).await.unwrap().unwrap();
    let mut read = [0; 3];
    rest.read_exact(&mut read).await.unwrap();
    assert_eq!((protocol, &read), (Protocol::Http1, b"GET"));
}
