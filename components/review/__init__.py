"""One Markdown comment from `pulumi preview --json`: read, ranked by effect, and rendered."""
