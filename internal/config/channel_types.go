package config

// Telegram has the settings of a channel of type telegram; see package channel/telegram.
type Telegram struct {
	Token     Secret `key:"token" help:"token of the bot, from @BotFather"`
	API       string `key:"api" default:"https://api.telegram.org" check:"url" help:"address of the Bot API server; set it for a local server"`
	Mode      string `key:"mode" default:"poll" oneof:"poll webhook" help:"how updates come: by polling, or sent to public_url"`
	PublicURL string `key:"public_url" check:"url" help:"public https address of this server, for mode webhook"`
	Preview   string `key:"preview" default:"edit" oneof:"edit draft off" help:"what people see of an unfinished answer: a growing message, a draft in private chats, or nothing"`
	Menu      string `key:"menu" default:"commands" oneof:"commands off" help:"menu behind the slash: the commands that a person may give, or the menu of @BotFather"`
	MaxMedia  Size   `key:"max_media" default:"10MiB" min:"0B" help:"maximum size of a file; the public server allows 20MiB"`
	Files     string `key:"files" help:"absolute path of a local Bot API server's files"`
}

// Webhook has the settings of a channel of type webhook; see package channel/webhook.
type Webhook struct {
	Secret         Secret   `key:"secret" help:"signing secret of messages, such as whsec_…; or several"`
	Ack            string   `key:"ack" default:"immediate" oneof:"immediate result" help:"answer to a message: at once, or with the reply"`
	Callback       string   `key:"callback" check:"url" help:"https address for replies; required with ack immediate"`
	CallbackSecret Secret   `key:"callback_secret" help:"signing secret of replies; unset: the secret of messages"`
	MaxBody        Size     `key:"max_body" default:"1MiB" min:"1KiB" help:"maximum size of a message, with media"`
	AllowInsecure  bool     `key:"allow_insecure" default:"false" help:"allow http for the callback"`
	AllowPrivate   []string `key:"allow_private" help:"callback hosts that may be private or localhost"`
}

// Slack has the settings of a channel of type slack; see package channel/slack.
type Slack struct {
	Token         Secret `key:"token" help:"token of the app's bot, xoxb-…, from its page OAuth & Permissions"`
	SigningSecret Secret `key:"signing_secret" help:"signing secret of events that come over HTTP, from the app's page Basic Information; set this or app_token"`
	AppToken      Secret `key:"app_token" help:"app-level token for Socket Mode, xapp-…, from the same page: events come over WebSockets, and Slack need not reach the server"`
	API           string `key:"api" default:"https://slack.com/api" check:"url" help:"address of the Web API"`
	Replies       string `key:"replies" default:"thread" oneof:"thread channel" help:"where a message in a channel is answered: in its thread, or in the channel"`
	Preview       string `key:"preview" default:"edit" oneof:"edit off" help:"what people see of an unfinished answer: a growing message, or nothing"`
	MaxMedia      Size   `key:"max_media" default:"10MiB" min:"0B" help:"maximum size of a file"`
}

// Feishu has the settings of a channel of type feishu; see package channel/feishu.
type Feishu struct {
	AppID      string `key:"app_id" help:"id of the app, cli_…, from its page Credentials & Basic Info"`
	AppSecret  Secret `key:"app_secret" help:"secret of the app, from the same page"`
	EncryptKey Secret `key:"encrypt_key" help:"key that encrypts and signs events, from Events & Callbacks, Encryption Strategy"`
	API        string `key:"api" default:"https://open.feishu.cn" check:"url" help:"address of the server API; https://open.larksuite.com for Lark"`
	Preview    string `key:"preview" default:"edit" oneof:"edit off" help:"what people see of an unfinished answer: a growing card, or nothing"`
	MaxMedia   Size   `key:"max_media" default:"10MiB" min:"0B" help:"maximum size of a file; the platform allows 100MB"`
}

// Discord has the settings of a channel of type discord; see package channel/discord.
type Discord struct {
	Token    Secret `key:"token" help:"token of the bot, from the page Bot of the application"`
	API      string `key:"api" default:"https://discord.com/api" check:"url" help:"address of the REST API, without its version; the API says where the gateway is"`
	Preview  string `key:"preview" default:"edit" oneof:"edit off" help:"what people see of an unfinished answer: a growing message, or nothing"`
	Menu     string `key:"menu" default:"commands" oneof:"commands off" help:"application commands behind the slash: the server's commands, or those that the application has"`
	MaxMedia Size   `key:"max_media" default:"10MiB" min:"0B" help:"maximum size of a file"`
}
