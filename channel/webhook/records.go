package webhook

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/lingserve/lingserve/channel"
)

const (
	// keepFor is how long a message that is sent again is answered like the first time (CH-182).
	keepFor = 24 * time.Hour
	// maxRecords and maxKept, in bytes, bound what of it is in memory.
	maxRecords = 10_000
	maxKept    = 64 << 20
)

// reply is a part of a reply as it goes to the callback. Its id is the webhook-id.
type reply struct {
	Turn         string `json:"turn"`
	Message      string `json:"message"` // the webhook-id of what is answered; a turn that is run anew has another id than was told
	Conversation where  `json:"conversation"`
	Kind         string `json:"kind"`
	Seq          int    `json:"seq"`
	Text         string `json:"text"`
	Final        bool   `json:"final"`

	id string
}

// where is a conversation, as messages have it too.
type where struct {
	ID     string           `json:"id"`
	Kind   channel.ChatType `json:"kind"`
	Thread string           `json:"thread,omitempty"`
}

func (w *where) set(p place) { w.ID, w.Kind, w.Thread = p.id, p.kind, p.thread }

// answer is what whoever sent a message is told of it.
type answer struct {
	Turn      string `json:"turn,omitempty"`
	Status    string `json:"status"` // accepted, or done: then there is what follows
	Admission string `json:"admission,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Outcome   string `json:"outcome,omitempty"`
	Replies   []part `json:"replies,omitzero"`
	Duplicate bool   `json:"duplicate,omitempty"`
}

// part is a part of a reply in an answer.
type part struct {
	Kind string `json:"kind"`
	Seq  int    `json:"seq"`
	Text string `json:"text"`
}

const (
	statusAccepted = "accepted"
	statusDone     = "done"
)

// record is what is known of one message.
type record struct {
	id    string
	of    *records
	name  string // of what is kept of it; "" is in memory alone
	keep  *keeper
	at    time.Time
	acked chan struct{} // closed when its turn, or the attempt to begin one, has come so far that its sender can be told

	mu      sync.Mutex
	told    bool
	refused bool // it was not accepted
	gone    bool // another replica runs it, and has the reply; to the callback, if there is one
	again   bool // its turn has failed and is run again
	counted bool // its sender may write it now: the door has looked
	holding bool // replies are kept for the answer
	stays   bool // and are for ever: there is no callback
	turn    string
	session string  // that the message is of; "" while that is not known
	ended   *answer // what its first turn came to
	replies []reply // that were kept

	order sync.Mutex // of what goes to the callback: what was kept goes first
}

// hold keeps a part of the reply for the answer; false where it has to go to the callback.
func (r *record) hold(p reply) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.holding {
		return false
	}
	r.replies = append(r.replies, p)
	if r.of != nil {
		r.of.bytes.Add(int64(len(p.Text)))
	}
	r.saveLocked()
	return true
}

// leave takes the record out of what is counted.
func (r *record) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of != nil {
		r.of.bytes.Add(-size(r.replies))
		r.of = nil
	}
}

// size is how many bytes of text there are.
func size(replies []reply) (n int64) {
	for _, p := range replies {
		n += int64(len(p.Text))
	}
	return n
}

func (r *record) holds() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.holding
}

// begin notes the id of a turn that begins, unless an earlier one has told what came of the message.
func (r *record) begin(turn string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended == nil {
		r.turn = turn
	}
}

// ack notes how far the turn has come.
func (r *record) ack(result channel.Result, whole bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if whole && r.again {
		return
	}
	r.turn = result.TurnID
	if whole {
		r.ended = &answer{Admission: string(result.Admission.Kind), Reason: string(result.Admission.Reason), Outcome: string(result.Outcome)}
		r.holding = r.stays
		r.saveLocked()
	}
	r.tellLocked()
}

// finish is ack for a turn that none was called for: the first of a process, and one that is run again, whose end counts instead of
// the failure before.
func (r *record) finish(result channel.Result, whole, again bool) {
	r.mu.Lock()
	once := r.again
	r.again = again
	told := r.told
	r.mu.Unlock()
	if !told || once {
		r.ack(result, whole)
	}
}

// refuse says that the message was not accepted.
func (r *record) refuse() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = true
	r.tellLocked()
}

// leaves says that another replica runs it.
func (r *record) leaves() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = true
	r.tellLocked()
}

func (r *record) isGone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gone
}

// counts notes that the door has counted the message against the rate of its sender.
func (r *record) counts() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counted = true
}

func (r *record) isCounted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counted
}

func (r *record) tellLocked() {
	if !r.told {
		r.told = true
		close(r.acked)
	}
}

// letGo ends the waiting for the reply: from now on it goes to the callback. What was kept so far is returned, for it has to go
// there, too: until they are, the caller has order.
func (r *record) letGo() []reply {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stays || !r.holding {
		return nil
	}
	kept := r.replies
	if len(kept) > 0 {
		r.order.Lock() // nobody else has it: as long as parts are kept, none is sent
	}
	if r.of != nil {
		r.of.bytes.Add(-size(kept))
	}
	r.holding, r.replies = false, nil
	r.saveLocked()
	return kept
}

// answer is what its sender is told now; ok is false where it was not accepted.
func (r *record) answer() (a answer, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answerLocked(), !r.refused
}

func (r *record) answerLocked() answer {
	if r.ended == nil {
		return answer{Turn: r.turn, Status: statusAccepted}
	}
	a := *r.ended
	a.Turn, a.Status, a.Replies = r.turn, statusDone, []part{}
	for _, p := range r.replies {
		a.Replies = append(a.Replies, part{p.Kind, p.Seq, p.Text})
	}
	return a
}

// saveLocked keeps the record where a restart, or another replica, finds it. It is best effort: who asks again is then told that the
// message was accepted.
func (r *record) saveLocked() {
	if r.name == "" {
		return
	}
	if text, err := json.Marshal(kept{r.answerLocked(), r.session}); err == nil {
		r.keep.save(r.name, r.session, text)
	}
}

// records are those of the last day.
type records struct {
	keep   *keeper // nil is in memory
	result bool    // answers have the reply, which is kept for them
	stays  bool    // and nothing else has it

	bytes atomic.Int64 // of the replies of all records

	mu sync.Mutex
	by *simplelru.LRU[string, *record]
}

func newRecords(keep *keeper, result, stays bool) *records {
	// A turn that still runs has its record when it is forgotten here, and its replies count no more.
	by, _ := simplelru.NewLRU(maxRecords, func(_ string, r *record) { r.leave() }) // it fails for a size below 1 only
	return &records{keep: keep, result: result, stays: stays, by: by}
}

// begin is the record of a message that has come; isNew is false where it came before.
func (k *records) begin(id string) (r *record, isNew bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r, ok := k.by.Peek(id); ok && time.Since(r.at) < keepFor {
		return r, false
	}
	r = k.addLocked(id)
	r.holding = k.result
	return r, true
}

// of is the record of a message whose turn runs. After a restart it is a new one: nobody waits for the reply, so that it is kept only
// where it can go nowhere else.
func (k *records) of(id string) *record {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r, ok := k.by.Peek(id); ok {
		return r
	}
	r := k.addLocked(id)
	r.holding = k.stays
	return r
}

func (k *records) addLocked(id string) *record {
	r := &record{id: id, of: k, at: time.Now(), acked: make(chan struct{}), stays: k.stays}
	if k.keep != nil && k.result {
		r.keep, r.name = k.keep, id
	}
	k.by.Remove(id)
	k.by.Add(id, r)
	for _, old, _ := k.by.GetOldest(); old != r && (k.bytes.Load() > maxKept || time.Since(old.at) >= keepFor); _, old, _ = k.by.GetOldest() {
		k.by.RemoveOldest()
	}
	return r
}

// forget drops the record of a message that was not accepted.
func (k *records) forget(r *record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if old, ok := k.by.Peek(r.id); ok && old == r {
		k.by.Remove(r.id)
	}
}

// earlier is what another process, or one before this one, has told of a message.
func (k *records) earlier(ctx context.Context, id string) (a answer, ok bool) {
	if k.keep == nil {
		return answer{}, false
	}
	var was kept
	text := k.keep.load(ctx, id)
	if text == nil || json.Unmarshal(text, &was) != nil {
		return answer{}, false
	}
	return was.answer, true
}

// kept is an answer as it is kept.
type kept struct {
	answer
	Session string `json:"session,omitempty"`
}

// erase forgets what was replied in a session, in memory.
func (k *records) erase(session string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.by.Values() {
		if r.isOf(session) {
			k.by.Remove(r.id)
		}
	}
}

func (r *record) isOf(session string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.session == session
}

// belongs notes whose session a message is of.
func (r *record) belongs(session string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.session = session
}
