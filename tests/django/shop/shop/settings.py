"""Settings of the shop. SHOP_DATABASES: its databases as JSON, as in DATABASES."""

import json
import os
from importlib.util import find_spec
from pathlib import Path

from stanchion import Retry

HERE = Path(os.environ.get("SHOP_FOLDER", "."))

SECRET_KEY = "of a shop that is only a test"
DEBUG = bool(os.environ.get("SHOP_DEBUG"))
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "shop.urls"
USE_TZ = True
STATIC_URL = "static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

DATABASES = json.loads(os.environ.get("SHOP_DATABASES", "null")) or {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": HERE / "shop.db",
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
        "TEST": {"NAME": HERE / "test.db"},
    },
    "reports": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": HERE / "reports.db",
        "OPTIONS": {"transaction_mode": "IMMEDIATE"},
        "TEST": {"NAME": HERE / "test-reports.db"},
    },
}
DATABASE_ROUTERS = ["shop.routing.Reports"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    *([] if find_spec("django.tasks") else ["django_tasks"]),
    "stanchion.django",
    "orders",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
TASKS = {
    "default": {
        "BACKEND": "stanchion.django.StanchionBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {"retry": Retry.constant(3600)},
    },
    "reports": {
        "BACKEND": "stanchion.django.StanchionBackend",
        "QUEUES": ["reports"],
        "OPTIONS": {"database": "reports"},
    },
    "elsewhere": {
        "BACKEND": "stanchion.django.StanchionBackend",
        "OPTIONS": {"url": os.environ.get("SHOP_ELSEWHERE", f"sqlite:///{HERE}/elsewhere.db")},
    },
    "gone": {
        "BACKEND": "stanchion.django.StanchionBackend",
        "OPTIONS": {"url": f"sqlite:///{HERE}/no-such-folder/gone.db"},
    },
}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
