//! One of several schemes behind one type, for callers that choose at run time. It must not know which schemes there are.

/// Implements [`Scheme`](crate::Scheme), [`Lookahead`](crate::Lookahead) and [`Prefetch`](crate::Prefetch) for an enumeration
/// of schemes. `$each` is a macro that calls the one that it is: `each!(self, scheme => scheme.quota())`.
macro_rules! dispatch_scheme {
    ($any:ty, $each:ident) => {
        /// What is asked seldom is compiled here, once, and not for each sink of each user.
        impl $any {
            fn discard_once(&mut self, block: lode_types::BlockNo, mut sink: &mut dyn $crate::Sink) {
                $each!(self, scheme => scheme.discard(block, &mut sink))
            }

            fn resize_once(&mut self, quota: $crate::Quota, mut sink: &mut dyn $crate::Sink) {
                $each!(self, scheme => scheme.resize(quota, &mut sink))
            }
        }

        impl $crate::Prefetch for $any {
            #[inline]
            fn prefetch_index(
                &self,
                blocks: impl Iterator<Item = (lode_types::BlockNo, $crate::PrefetchHint)>,
            ) {
                $each!(self, scheme => scheme.prefetch_index(blocks))
            }

            #[inline]
            fn prefetch_entries<'a>(
                &self,
                blocks: impl Iterator<Item = (lode_types::BlockNo, &'a mut $crate::PrefetchHint)>,
            ) {
                $each!(self, scheme => scheme.prefetch_entries(blocks))
            }

            #[inline]
            fn prefetch_neighbours(
                &self,
                blocks: impl Iterator<Item = (lode_types::BlockNo, $crate::PrefetchHint)>,
            ) {
                $each!(self, scheme => scheme.prefetch_neighbours(blocks))
            }
        }

        impl $crate::Lookahead for $any {
            #[inline]
            fn access_prefetched<S: $crate::Sink>(
                &mut self,
                access: lode_types::Access,
                hint: $crate::PrefetchHint,
                sink: &mut S,
            ) {
                $each!(self, scheme => scheme.access_prefetched(access, hint, sink))
            }

            fn access_batch<'a, W: $crate::AccessSink>(
                &mut self,
                accesses: impl Iterator<Item = &'a $crate::PrefetchedAccess>,
                sink: &mut W,
            ) {
                $each!(self, scheme => scheme.access_batch(accesses, sink))
            }
        }

        impl $crate::Scheme for $any {
            #[inline]
            fn access<S: $crate::Sink>(&mut self, access: lode_types::Access, sink: &mut S) {
                $each!(self, scheme => scheme.access(access, sink))
            }

            #[inline]
            fn end_request<S: $crate::Sink>(&mut self, now_ns: u64, sink: &mut S) {
                $each!(self, scheme => scheme.end_request(now_ns, sink))
            }

            fn discard<S: $crate::Sink>(&mut self, block: lode_types::BlockNo, sink: &mut S) {
                self.discard_once(block, sink);
            }

            fn forget(&mut self, level: lode_types::Level, block: lode_types::BlockNo) {
                $each!(self, scheme => scheme.forget(level, block))
            }

            fn cleaned(&mut self, block: lode_types::BlockNo) {
                $each!(self, scheme => scheme.cleaned(block))
            }

            fn restore(&mut self, block: lode_types::BlockNo, dirty: bool) -> Option<$crate::Slot> {
                $each!(self, scheme => scheme.restore(block, dirty))
            }

            fn expect(&mut self, blocks: u32) {
                $each!(self, scheme => scheme.expect(blocks))
            }

            fn resize<S: $crate::Sink>(&mut self, quota: $crate::Quota, sink: &mut S) {
                self.resize_once(quota, sink);
            }

            fn quota(&self) -> $crate::Quota {
                $each!(self, scheme => scheme.quota())
            }

            fn resident_blocks(&self, level: lode_types::Level) -> u32 {
                $each!(self, scheme => scheme.resident_blocks(level))
            }

            fn memory_bytes(&self) -> usize {
                $each!(self, scheme => scheme.memory_bytes())
            }

            fn sizing(&mut self) -> Option<&mut dyn $crate::Sizing> {
                $each!(self, scheme => scheme.sizing())
            }

            fn budgeting(&mut self) -> Option<&mut dyn $crate::Budgeting> {
                $each!(self, scheme => scheme.budgeting())
            }

            fn mirroring(&self) -> Option<&dyn $crate::Mirroring> {
                $each!(self, scheme => scheme.mirroring())
            }

            fn reissuing(&mut self) -> Option<&mut dyn $crate::Reissuing> {
                $each!(self, scheme => scheme.reissuing())
            }

            fn host_timed(&mut self) -> Option<&mut dyn $crate::HostTimed> {
                $each!(self, scheme => scheme.host_timed())
            }

            fn choosing(&self) -> Option<&dyn $crate::Choosing> {
                $each!(self, scheme => scheme.choosing())
            }
        }
    };
}
