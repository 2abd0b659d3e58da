"""One Markdown comment from `pulumi preview --json`: `preview` reads it, `effects` ranks it, `comment` renders it."""
