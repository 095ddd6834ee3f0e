"""Tasks whose best policy is known: what an agent must learn before anybody believes it elsewhere."""
