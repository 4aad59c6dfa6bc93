"""Every table of the database. Whoever needs the whole schema (migrations, tests) takes `METADATA` from here, because a table is
known only once its module has been imported."""

from __future__ import annotations

from app.accounts import models as accounts
from app.audit import models as audit
from app.conversations import models as conversations
from app.database import Base
from app.feedback import models as feedback
from app.openai import models as openai
from app.personas import models as personas
from app.responses import models as responses
from app.service import models as service
from app.usage import models as usage
from app.webhooks import models as webhooks
from app.widgets import models as widgets

ROOMS = (accounts, audit, conversations, feedback, openai, personas, responses, service, usage, webhooks, widgets)

METADATA = Base.metadata
