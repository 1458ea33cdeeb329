"""Acts, as the pages and the API do them: each is in the audit log before it is done."""
