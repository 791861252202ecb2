"""The HTTP endpoint: what each request passes before and after moto."""
