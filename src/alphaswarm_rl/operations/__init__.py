"""Every verb once: settings and a frozen request in, a frozen result out."""
