package access

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/lingserve/lingserve/internal/wording"
	"github.com/lingserve/lingserve/tool"
)

// Principal is the caller. The zero value is an unknown one.
type Principal struct {
	Name   string    `json:"name"`            // as [CheckName] has it, or of a token: then with an @ in it
	Role   tool.Role `json:"role"`            // what its tools may do, and whether it may administer
	Scopes Scopes    `json:"scopes,omitzero"` // narrow what the role may; zero narrows nothing
}

// Local is the caller of a server without keys and tokens: its one user.
var Local = Principal{Name: local, Role: tool.Admin}

const local = "local"

// Unknown reports whether the caller is not known.
func (p Principal) Unknown() bool { return p.Name == "" }

// Owner is what runs and sessions are marked with that the principal begins: its name, or "" for [Local], so that a server that
// had no keys before finds what it has.
func (p Principal) Owner() string {
	if p.Name == local {
		return ""
	}
	return p.Name
}

// Sees reports whether the principal may see what an owner has: it owns it itself, or it administers. Without an owner it belongs to
// [Local].
func (p Principal) Sees(owner string) bool {
	return !p.Unknown() && (p.Owner() == owner || p.Administers())
}

// Administers says whether the principal may see and do what concerns all others: their runs, metrics, profiles.
func (p Principal) Administers() bool {
	return p.Role == tool.Admin && p.may(admin, "")
}

// Operates reports whether the principal has shown that it is an operator or an admin. [Local] has shown nothing.
func (p Principal) Operates() bool {
	return !p.Unknown() && p.Name != local && p.Role >= tool.Operator
}

// Runs reports whether the principal may run a workflow. "" is a workflow that the request itself defines.
func (p Principal) Runs(workflow string) bool { return p.may(workflows, workflow) }

// Asks says whether the principal may ask an agent.
func (p Principal) Asks(agent string) bool { return p.may(agents, agent) }

// Remembers says whether the principal may use sessions: name one in a run, list, read, fork and erase its own.
func (p Principal) Remembers() bool { return p.may(sessions, "") }

func (p Principal) may(resource, name string) bool {
	return !p.Unknown() && p.Scopes.allow(resource, name)
}

// LogValue shows who it is and as what. What it may in detail is the same at each request.
func (p Principal) LogValue() slog.Value {
	if p.Unknown() {
		return slog.StringValue("nobody")
	}
	return slog.GroupValue(slog.String("name", p.Name), slog.String("role", p.Role.String()))
}

// Lengths of names, in bytes.
const (
	// MaxName is how long a principal's name may be.
	MaxName = 64
	// maxIssuer and maxSubject are those of the two parts of the name that a token leads to.
	maxIssuer  = 24
	maxSubject = MaxName - maxIssuer - 1
)

// CheckName says what is wrong with a name for a principal. It has small letters, digits, ".", "_" and "-" only, since it is used in
// labels of metrics, in ids of sessions and, as a part, in names of files, some of which do not tell large letters from small ones.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is missing")
	case name == local:
		return errors.New("the name local is reserved for requests without keys; choose another name")
	case !plain(name, MaxName):
		return fmt.Errorf("invalid name; expected at most %d lower-case letters, digits, \".\", \"_\" and \"-\", with a letter or digit at both ends", MaxName)
	}
	return nil
}

// plain says whether text is a name that stands for itself.
func plain(text string, most int) bool {
	if text == "" || len(text) > most || !alphanumeric(text[0]) || !alphanumeric(text[len(text)-1]) {
		return false
	}
	for i := range len(text) {
		if c := text[i]; !alphanumeric(c) && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

func alphanumeric(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

// tokenName is the name of an issuer's subject: subject@issuer. A subject that is no plain name is hashed. A name with an "@" is no
// key's, and a hash begins as no plain name does; so two different subjects, issuers and keys never have one name.
func tokenName(issuer, subject string) string {
	if !plain(subject, maxSubject) {
		sum := sha256.Sum256([]byte(subject))
		subject = "_" + letters.EncodeToString(sum[:20])
	}
	return subject + "@" + issuer
}

// letters encodes bytes as text that can be read out, selected by a double click, and used in a name.
var letters = base32.NewEncoding(alphabet).WithPadding(base32.NoPadding)

const alphabet = "abcdefghijklmnopqrstuvwxyz234567"

type principalKey struct{}

// With returns a context that knows who asks.
func With(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// From returns the caller that the context has, or the zero value.
func From(ctx context.Context) Principal {
	p, _ := ctx.Value(principalKey{}).(Principal)
	return p
}

// ParseRole reads a role; the error names all roles.
func ParseRole(text string) (tool.Role, error) {
	var r tool.Role
	if err := r.UnmarshalText([]byte(text)); err != nil {
		return 0, fmt.Errorf("unknown role %q; expected user, operator or admin", short(text))
	}
	return r, nil
}

// short shortens a text for an error. It repeats nothing of a key, which may be in a wrong place.
func short(text string) string {
	if strings.Contains(text, keyMark) {
		return "…"
	}
	return wording.ClipTo(text, 40)
}
