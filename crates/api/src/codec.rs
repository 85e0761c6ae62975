//! The codec of the generated services: prost's, with small buffers.
//!
//! tonic makes both buffers of a call with its headers, before anything has come or is to be sent,
//! and 8 KiB each by default. Streams cost nothing to open, and a client may have very many.

use std::marker::PhantomData;

use prost::Message;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::ProstCodec;
pub use tonic_prost::{ProstDecoder, ProstEncoder};

/// What a message fits into that is not long. A buffer grows by what a longer one takes.
const BUFFER: usize = 256;
/// Messages are sent together up to about this length: tonic's default.
const TOGETHER: usize = 32 << 10;

pub(crate) fn buffers() -> BufferSettings {
    BufferSettings::new(BUFFER, TOGETHER)
}

/// Encodes `E`, decodes `D`.
#[derive(Debug)]
pub struct SmallCodec<E, D>(PhantomData<(E, D)>);

impl<E, D> Default for SmallCodec<E, D> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<E, D> Codec for SmallCodec<E, D>
where
    E: Message + Send + 'static,
    D: Message + Default + Send + 'static,
{
    type Encode = E;
    type Decode = D;
    type Encoder = ProstEncoder<E>;
    type Decoder = ProstDecoder<D>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<E, D>::raw_encoder(buffers())
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<E, D>::raw_decoder(buffers())
    }
}

#[cfg(test)]
mod tests {
    use tonic::codec::{Decoder, Encoder};

    use super::*;
    use crate::pb::{LeaseKeepAliveRequest, LeaseKeepAliveResponse, WatchRequest};
    use crate::wire_server::WireCodec;

    /// tonic allocates this much for each direction of a stream that nothing has been sent on.
    #[test]
    fn a_stream_costs_little_to_open() {
        let little = format!("{:?}", BufferSettings::new(BUFFER, TOGETHER));
        let mut codec = SmallCodec::<LeaseKeepAliveResponse, LeaseKeepAliveRequest>::default();
        assert_eq!(format!("{:?}", codec.encoder().buffer_settings()), little);
        assert_eq!(format!("{:?}", codec.decoder().buffer_settings()), little);
        let mut codec = WireCodec::<crate::wire::PutResponse<bytes::Bytes>, WatchRequest>::default();
        assert_eq!(format!("{:?}", codec.encoder().buffer_settings()), little);
        assert_eq!(format!("{:?}", codec.decoder().buffer_settings()), little);
    }
}
