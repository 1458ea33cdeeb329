"""The MariaDB and MySQL store."""
