package access

import "time"

// TokenName is the name of an issuer's subject.
var TokenName = tokenName

// NoScopes are those of a token that has none which mean something here.
func NoScopes() Scopes { return scopesOf(nil, "") }

// ReadKeys reads a file of keys.
func ReadKeys(path string) ([]Key, error) {
	data, err := readKeyFile(path)
	if err != nil {
		return nil, err
	}
	return parseKeyFile(path, data)
}

// Callers returns how many callers l counts separately.
func (l *Limits) Callers() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.callers)
}

// RunsOf returns how many runs of a caller are active.
func (l *Limits) RunsOf(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.callers[name].runs
}

// Age returns the age of the issuer's keys. It is negative before the first read.
func (t *Tokens) Age() time.Duration {
	set := t.signers.set.Load()
	if set == nil {
		return -1
	}
	return t.signers.o.Now().Sub(set.at)
}
