package channel

import (
	"context"
	"time"
)

// showing is the preview of the block that is open.
type showing struct {
	receipt *Receipt // of the first, which later ones and Deliver edit; nil: nothing stands there
	text    string   // as it stands there
	stopped bool     // it is not known whether a preview stands there: another would be a second one
}

// showPreview shows the newest text of the block that is open, which will be the seq-th if nothing comes before it.
func (d *deliveries) showPreview(p Payload, seq int) {
	b := Block{Kind: ReplyBlock, Seq: seq, Payload: p, Target: d.Target, Key: d.key(seq), Preview: d.shown.receipt}
	every := d.bounds.Preview
	if d.pace != nil {
		if own := d.pace.PreviewEvery(b); own > 0 {
			every = own
		}
	}
	if every <= 0 {
		every = previewEvery
	}
	if d.shown.stopped || d.shown.receipt != nil && d.shown.text == p.Text || !d.mayShow(d.ctx) {
		d.rhythm.preview = time.Now().Add(every)
		return
	}
	var before Receipt
	if d.shown.receipt != nil {
		before = *d.shown.receipt
	}
	r, err := d.wire(d.ctx, &b, "Preview", func() (Receipt, error) { return d.preview.Preview(d.ctx, b, before) })
	// The interval counts from the end of a preview: a slow platform gets no more of them.
	d.rhythm.preview = time.Now().Add(every)
	if r.State.Seen() {
		d.mu.Lock()
		d.tally.Visible = true
		d.mu.Unlock()
		d.shown.text = p.Text
		d.keepPreview(p.Text)
		if d.shown.receipt == nil {
			d.shown.receipt = &r
		}
	}
	if err == nil {
		return
	}
	if not, ok := retryable(err); ok && not.RetryAfter > every {
		d.rhythm.preview = time.Now().Add(not.RetryAfter)
	}
	if r.State == UnknownWhether && d.shown.receipt == nil {
		d.shown.stopped = true
		d.mu.Lock()
		d.tally.Unknown = true
		d.mu.Unlock()
	}
	if !d.warned {
		d.warned = true
		d.warnOf("Preview", err)
	}
}

// abandon gives up a preview that stands there, and whose block does not come.
func (d *deliveries) abandon(ctx context.Context, cause error) {
	shown := d.shown
	d.shown = showing{}
	if shown.receipt == nil {
		return
	}
	if cause == nil {
		cause = ErrSuppress
	}
	// The turn may be over, and the text that stands there is still to be put right.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonIn)
	defer cancel()
	d.warnOf("Abandon", caught(ctx, d.kernel.Log, "Abandon", func() error {
		return d.preview.Abandon(ctx, *shown.receipt, cause)
	}))
}

// abandonIn bounds what a turn does after it was canceled.
const abandonIn = 5 * time.Second
