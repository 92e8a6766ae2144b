package config

// Feishu has the settings of a channel of type feishu; see package channel/feishu.
type Feishu struct {
	AppID             string
	AppSecret         Secret
	EncryptKey        Secret
	VerificationToken Secret
	API               string
	Preview           string
	Format            string
	MaxMedia          Size
}

func feishuSettings(at string, of func(*Config) *Channel) []Setting {
	return []Setting{
		{
			Key:   at + "app_id",
			Help:  "id of the app, cli_…, from its page Credentials & Basic Info",
			field: func(c *Config) any { return &of(c).Feishu.AppID },
		},
		{
			Key: at + "app_secret", Secret: true,
			Help:  "secret of the app, from the same page",
			field: func(c *Config) any { return &of(c).Feishu.AppSecret },
		},
		{
			Key: at + "encrypt_key", Secret: true,
			Help:  "key that encrypts and signs events, from Events & Callbacks, Encryption Strategy",
			field: func(c *Config) any { return &of(c).Feishu.EncryptKey },
		},
		{
			Key: at + "verification_token", Secret: true,
			Help:  "token in events, from the same page; set this or encrypt_key",
			field: func(c *Config) any { return &of(c).Feishu.VerificationToken },
		},
		{
			Key: at + "api", Default: "https://open.feishu.cn", check: checkURL,
			Help:  "address of the server API; https://open.larksuite.com for Lark",
			field: func(c *Config) any { return &of(c).Feishu.API },
		},
		{
			Key: at + "preview", Default: "edit", OneOf: []string{"edit", "off"},
			Help:  "what people see of an unfinished answer: a growing card, or nothing",
			field: func(c *Config) any { return &of(c).Feishu.Preview },
		},
		{
			Key: at + "format", Default: "card", OneOf: []string{"card", "text"},
			Help:  "form of answers: cards with markup, or plain texts, which cannot grow",
			field: func(c *Config) any { return &of(c).Feishu.Format },
		},
		{
			Key: at + "max_media", Default: "10MiB", Min: "0B",
			Help:  "maximum size of a file; the platform allows 100MB",
			field: func(c *Config) any { return &of(c).Feishu.MaxMedia },
		},
	}
}
