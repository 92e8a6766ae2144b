package config

import (
	"fmt"
	"strings"

	"github.com/lingserve/lingserve/access"
	"github.com/lingserve/lingserve/tool"
)

// ClientKey is the environment variable with the key that a command shows to another server. It is no setting.
const ClientKey = "LINGSERVE_KEY"

// On reports whether callers must authenticate.
func (a *Auth) On() bool { return len(a.Keys) > 0 || a.KeysFile != "" || a.Issuer != "" }

// RoleNames are the roles that a token's claim gives; nil are those that have their own names.
func (a *Auth) RoleNames() map[string]tool.Role {
	if len(a.Roles) == 0 {
		return nil
	}
	roles := map[string]tool.Role{}
	for _, text := range a.Roles {
		claim, _, _ := strings.Cut(text, "=")
		roles[claim], _ = parseRoleName(text) // which is checked
	}
	return roles
}

func parseRoleName(text string) (tool.Role, error) {
	claim, role, ok := strings.Cut(text, "=")
	if !ok || claim == "" {
		return 0, fmt.Errorf("%q is invalid; expected CLAIM=ROLE, such as staff=operator", text)
	}
	return access.ParseRole(role)
}
