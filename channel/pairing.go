package channel

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lingserve/lingserve/internal/vfs"
)

// Pairs knows who was paired with which account of a channel, and who asks for it: [Pairing] with all that an operator needs. Who
// wants to talk is told a code; the operator approves the code.
//
// On disk it is a folder with one small file for each pair and each request, so that a command of the operator and the server that
// runs need not know of each other: what one of them writes, the other sees at once.
type Pairs struct {
	store pairStore
	now   func() time.Time

	mu sync.Mutex // of what is read and then written
}

// Pair is somebody who may talk to an account, or who asks for it.
type Pair struct {
	Channel string    `json:"channel"`
	Account string    `json:"account,omitempty"`
	Sender  string    `json:"sender"`
	Name    string    `json:"name,omitempty"`    // as the platform shows it; anybody may take any name
	At      time.Time `json:"at"`                // when it was asked for, or approved
	Code    string    `json:"code,omitempty"`    // of one who asks; "" of one who is paired
	Welcome bool      `json:"welcome,omitempty"` // of one who is paired and was not told so yet
}

var (
	// ErrNoCode says that nobody asks with this code: it was mistyped, approved already, or is older than an hour.
	ErrNoCode = errors.New("channel: unknown pairing code; codes expire after an hour")
	// ErrManyRequests says that more people ask to be paired than are kept.
	ErrManyRequests = errors.New("channel: too many pairing requests; approve or remove some")
)

const (
	// pairingLife is how long a code is good, and so how seldom one sender is told one.
	pairingLife = time.Hour
	// maxRequests bounds what strangers can make the server keep.
	maxRequests = 256
	// codeLength letters of codeLetters are 40 bits, more than enough for an operator who types what he was told.
	codeLength  = 8
	codeLetters = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789" // no I, O, 0 and 1
)

// NewPairs keeps pairs in memory.
func NewPairs() *Pairs { return &Pairs{store: &memoryPairs{}, now: time.Now} }

// OpenPairs keeps pairs in a folder, which is made when the first one is written. Files have the mode 0600.
func OpenPairs(dir string) *Pairs { return &Pairs{store: diskPairs{vfs.At(dir)}, now: time.Now} }

// SharePairs keeps pairs in a store that several processes share.
func SharePairs(store Texts) *Pairs { return &Pairs{store: sharedPairs{store}, now: time.Now} }

// Paired says whether a sender was paired. An error is a store that cannot be read.
func (p *Pairs) Paired(ctx context.Context, channel, account, sender string) (bool, error) {
	_, ok, err := p.store.get(ctx, pairName(channel, account, sender))
	return ok, err
}

// Asked implements [Asker]: whether the code that a sender was told is still good.
func (p *Pairs) Asked(ctx context.Context, channel, account, sender string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok, err := p.store.get(ctx, requestName(channel, account, sender))
	return ok && !p.over(r), err
}

// Request is somebody who asks to be paired. The code is the one to tell; tell is false where the sender was told it within the hour,
// and is not to be told again. Somebody who is paired has no code.
func (p *Pairs) Request(ctx context.Context, channel, account string, s SenderFacts) (code string, tell bool, err error) {
	if s.ID == "" {
		return "", false, errors.New("channel: a sender without an id cannot be paired")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok, err := p.store.get(ctx, pairName(channel, account, s.ID)); ok || err != nil {
		return "", false, err
	}
	name := requestName(channel, account, s.ID)
	asked, ok, err := p.store.get(ctx, name)
	if err != nil {
		return "", false, err
	}
	if ok && !p.over(asked) {
		return asked.Code, false, nil
	}
	waiting, err := p.requests(ctx)
	if err != nil {
		return "", false, err
	}
	if len(waiting) >= maxRequests {
		return "", false, ErrManyRequests
	}
	for code == "" || slices.ContainsFunc(waiting, func(o Pair) bool { return o.Code == code }) {
		code = newCode()
	}
	r := Pair{Channel: channel, Account: account, Sender: s.ID, Name: label(cmp.Or(s.Name, s.DisplayLabel, s.Username)), At: p.now().UTC(), Code: code}
	asked, err = p.store.add(ctx, name, r, p.over)
	if err != nil {
		return "", false, err
	}
	return asked.Code, asked.Code == code, nil // another process may have been told of the same sender
}

// Approve pairs who asks with a code, in upper or lower case and with any blanks or dashes in it. channel may be "" for any. The
// error is [ErrNoCode] where nobody does.
func (p *Pairs) Approve(ctx context.Context, channel, code string) (Pair, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	code = strings.ToUpper(strings.NewReplacer(" ", "", "-", "").Replace(code))
	waiting, err := p.requests(ctx)
	if err != nil {
		return Pair{}, err
	}
	for _, r := range waiting {
		if r.Code != code || channel != "" && r.Channel != channel {
			continue
		}
		name := requestName(r.Channel, r.Account, r.Sender)
		r.Code, r.At, r.Welcome = "", p.now().UTC(), true
		// First the pair: a crash in between leaves a request that asks for what there is.
		if err := p.store.put(ctx, pairName(r.Channel, r.Account, r.Sender), r); err != nil {
			return Pair{}, err
		}
		return r, p.store.remove(ctx, name)
	}
	return Pair{}, ErrNoCode
}

// Welcome implements [Welcomer].
func (p *Pairs) Welcome(ctx context.Context, channel, account, sender string) (first bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := pairName(channel, account, sender)
	pair, ok, err := p.store.get(ctx, name)
	if err != nil || !ok || !pair.Welcome {
		return false, err
	}
	return p.store.welcome(ctx, name)
}

// Remove takes a pair, or a request for one, away. ok is false where there was none.
func (p *Pairs) Remove(ctx context.Context, channel, account, sender string) (ok bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range []string{pairName(channel, account, sender), requestName(channel, account, sender)} {
		_, there, err := p.store.get(ctx, name)
		if err == nil { // even if it is not there: an earlier call may have removed it without making that durable
			err = p.store.remove(ctx, name)
		}
		if err != nil {
			return ok, err
		}
		ok = ok || there
	}
	return ok, nil
}

// List returns who is paired and who asks, by channel, account and sender. What is over is left out.
func (p *Pairs) List(ctx context.Context) ([]Pair, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting, err := p.requests(ctx)
	if err != nil {
		return nil, err
	}
	pairs, err := p.store.list(ctx, pairPrefix)
	if err != nil {
		return nil, err
	}
	pairs = append(pairs, waiting...)
	slices.SortFunc(pairs, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Account, b.Account), cmp.Compare(a.Sender, b.Sender), cmp.Compare(a.Code, b.Code))
	})
	return pairs, nil
}

// requests are those that are not over; the others are removed.
func (p *Pairs) requests(ctx context.Context) ([]Pair, error) {
	all, err := p.store.list(ctx, requestPrefix)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(r Pair) bool {
		over := p.over(r)
		if over {
			_ = p.store.remove(ctx, requestName(r.Channel, r.Account, r.Sender)) // else the next time
		}
		return over
	}), nil
}

// over also takes what comes from the future for over, as when the clock was set back: else it would never end.
func (p *Pairs) over(r Pair) bool {
	age := p.now().Sub(r.At)
	return age >= pairingLife || age < -pairingLife
}

func newCode() string {
	b := make([]byte, codeLength)
	_, _ = rand.Read(b) // never fails
	for i := range b {
		b[i] = codeLetters[int(b[i])%len(codeLetters)] // 256 is a multiple of 32
	}
	return string(b)
}

// Names of files begin with what they are. The rest is a hash, since ids may be anything and must not be read off a folder.
const (
	pairPrefix    = "pair-"
	requestPrefix = "request-"
)

func pairName(channel, account, sender string) string {
	return pairPrefix + pairHash(channel, account, sender)
}

func requestName(channel, account, sender string) string {
	return requestPrefix + pairHash(channel, account, sender)
}

func pairHash(channel, account, sender string) string {
	sum := sha256.Sum256([]byte(SessionKey(KeyParts{Channel: channel, Account: account, Conversation: sender})))
	return hex.EncodeToString(sum[:16])
}

// pairStore keeps pairs by name.
type pairStore interface {
	get(_ context.Context, name string) (p Pair, ok bool, err error)
	put(_ context.Context, name string, p Pair) error
	// add puts one, unless there is one that is not over, and returns the one that there is.
	add(_ context.Context, name string, p Pair, over func(Pair) bool) (Pair, error)
	// welcome takes back that somebody was not told of being paired; first is false where another process did.
	welcome(_ context.Context, name string) (first bool, err error)
	remove(_ context.Context, name string) error // of what is not there is no error
	list(_ context.Context, prefix string) ([]Pair, error)
}

// sharedPairs is a store of several processes.
type sharedPairs struct{ texts Texts }

func (s sharedPairs) get(ctx context.Context, name string) (Pair, bool, error) {
	text, err := s.texts.Load(ctx, name)
	if text == nil || err != nil {
		return Pair{}, false, err
	}
	p, err := parsePair(name, text)
	return p, err == nil, err
}

func (s sharedPairs) put(ctx context.Context, name string, p Pair) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return s.texts.Save(ctx, name, text)
}

func (s sharedPairs) add(ctx context.Context, name string, p Pair, over func(Pair) bool) (there Pair, err error) {
	err = s.texts.Change(ctx, name, func(text []byte) ([]byte, error) {
		if text != nil {
			old, err := parsePair(name, text)
			if err != nil || !over(old) {
				there = old
				return text, err
			}
		}
		there = p
		return json.Marshal(p)
	})
	return there, err
}

func (s sharedPairs) welcome(ctx context.Context, name string) (first bool, err error) {
	err = s.texts.Change(ctx, name, func(text []byte) ([]byte, error) {
		first = false
		if text == nil {
			return nil, nil
		}
		p, err := parsePair(name, text)
		if err != nil || !p.Welcome {
			return text, err
		}
		first, p.Welcome = true, false
		return json.Marshal(p)
	})
	return first && err == nil, err
}

func (s sharedPairs) remove(ctx context.Context, name string) error {
	return s.texts.Save(ctx, name, nil)
}

func (s sharedPairs) list(ctx context.Context, prefix string) ([]Pair, error) {
	names, err := s.texts.Names(ctx)
	if err != nil {
		return nil, err
	}
	return pairsNamed(ctx, s, names, prefix)
}

// pairsNamed are those of the names that begin with prefix and are there.
func pairsNamed(ctx context.Context, s pairStore, names []string, prefix string) ([]Pair, error) {
	var all []Pair
	for _, name := range names {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		p, ok, err := s.get(ctx, name)
		if err != nil {
			return nil, err
		}
		if ok {
			all = append(all, p)
		}
	}
	return all, nil
}

type memoryPairs struct {
	mu    sync.RWMutex
	pairs map[string]Pair
}

func (m *memoryPairs) get(_ context.Context, name string) (Pair, bool, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, ok := m.pairs[name]
	return p, ok, nil
}

func (m *memoryPairs) add(ctx context.Context, name string, p Pair, _ func(Pair) bool) (Pair, error) {
	return p, m.put(ctx, name, p) // whoever calls it has looked, and is alone
}

func (m *memoryPairs) welcome(ctx context.Context, name string) (bool, error) {
	return welcomeAlone(ctx, m, name)
}

// welcomeAlone is welcome of a store that one process at a time changes.
func welcomeAlone(ctx context.Context, s pairStore, name string) (first bool, err error) {
	p, ok, err := s.get(ctx, name)
	if err != nil || !ok || !p.Welcome {
		return false, err
	}
	p.Welcome = false
	return true, s.put(ctx, name, p)
}

func (m *memoryPairs) put(_ context.Context, name string, p Pair) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pairs == nil {
		m.pairs = map[string]Pair{}
	}
	m.pairs[name] = p
	return nil
}

func (m *memoryPairs) remove(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pairs, name)
	return nil
}

func (m *memoryPairs) list(_ context.Context, prefix string) ([]Pair, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var all []Pair
	for name, p := range m.pairs {
		if strings.HasPrefix(name, prefix) {
			all = append(all, p)
		}
	}
	return all, nil
}

// diskPairs is a folder. Each use opens it, since only the first pair makes it.
type diskPairs struct{ dir vfs.Dir }

const pairSuffix = ".json"

// maxPair is far more than a pair takes.
const maxPair = 16 << 10

func (d diskPairs) get(_ context.Context, name string) (p Pair, ok bool, err error) {
	folder, err := d.dir.OpenExisting()
	if errors.Is(err, fs.ErrNotExist) {
		return Pair{}, false, nil
	}
	if err != nil {
		return Pair{}, false, vfs.Explain(err)
	}
	defer folder.Close()
	f, err := folder.Open(name+pairSuffix, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return Pair{}, false, nil
	}
	if err != nil {
		return Pair{}, false, vfs.Explain(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPair))
	if err != nil {
		return Pair{}, false, vfs.Explain(err)
	}
	p, err = parsePair(name, text)
	return p, err == nil, err
}

func parsePair(name string, text []byte) (p Pair, err error) {
	if err := json.Unmarshal(text, &p); err != nil {
		return Pair{}, fmt.Errorf("channel: the pairing %s is damaged; remove the file", name)
	}
	// A file that was renamed by hand pairs nobody else.
	if name != pairName(p.Channel, p.Account, p.Sender) && name != requestName(p.Channel, p.Account, p.Sender) {
		return Pair{}, fmt.Errorf("channel: the pairing %s belongs to another sender; remove the file", name)
	}
	return p, nil
}

func (d diskPairs) add(ctx context.Context, name string, p Pair, _ func(Pair) bool) (Pair, error) {
	return p, d.put(ctx, name, p) // as in memory
}

func (d diskPairs) welcome(ctx context.Context, name string) (bool, error) {
	return welcomeAlone(ctx, d, name)
}

func (d diskPairs) put(_ context.Context, name string, p Pair) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	folder, err := d.dir.Open()
	if err != nil {
		return vfs.Explain(err)
	}
	return vfs.Explain(errors.Join(vfs.WriteFile(folder, name+pairSuffix, append(text, '\n')), folder.Close()))
}

// remove makes durable that the pair is gone, so that a power failure does not let the person in again.
func (d diskPairs) remove(_ context.Context, name string) error {
	folder, err := d.dir.OpenExisting()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return vfs.Explain(err)
	}
	err = folder.Remove(name + pairSuffix)
	if err == nil || errors.Is(err, fs.ErrNotExist) { // an earlier call may have removed it without making that durable
		err = folder.SyncFolder(".")
	}
	return vfs.Explain(errors.Join(err, folder.Close()))
}

func (d diskPairs) list(ctx context.Context, prefix string) ([]Pair, error) {
	folder, err := d.dir.OpenExisting()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, vfs.Explain(err)
	}
	files, err := vfs.Names(folder, ".")
	if err = errors.Join(err, folder.Close()); err != nil {
		return nil, vfs.Explain(err)
	}
	var names []string
	for _, file := range files {
		if name, ok := strings.CutSuffix(file, pairSuffix); ok {
			names = append(names, name)
		}
	}
	return pairsNamed(ctx, d, names, prefix)
}

// PairedFact is what [Identity.Paired] is: asked only where the policy needs it, unknown where the store cannot be read. Without a
// store nobody is paired.
func PairedFact(ctx context.Context, p Pairing, policy PolicyKind, channel, account, sender string) (Tri, error) {
	if policy != PolicyPairing {
		return Unknown, nil
	}
	if p == nil {
		return No, nil
	}
	ok, err := p.Paired(ctx, channel, account, sender)
	switch {
	case err != nil:
		return Unknown, err
	case ok:
		return Yes, nil
	}
	return No, nil
}
