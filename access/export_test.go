package access

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
